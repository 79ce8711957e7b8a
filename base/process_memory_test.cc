#include "base/process_memory.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace rewright {

TEST_CASE("more memory than there is is refused, and a little is not asked about") {
  const std::size_t left = available_bytes();
  CHECK(left > 0);
  CHECK_NOTHROW(require_memory(0));
  CHECK_NOTHROW(require_memory(1 << 20));
  if (left == static_cast<std::size_t>(-1)) return;  // the system does not say
  CHECK(left < std::size_t{1} << 50);
  CHECK_NOTHROW(require_memory(left / 2));
  CHECK_THROWS_AS(require_memory(2 * left + (std::size_t{1} << 30)), Error);
  CHECK_THROWS_AS(require_memory(static_cast<std::size_t>(-1)), Error);
}

}  // namespace rewright
