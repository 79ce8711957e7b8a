#include "distribution/communicator.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "distribution/testing.h"

using namespace rewright;
using namespace rewright::distribution;

// Tests tagged [distribution] also run under `mpirun -n K`, in each of the K processes.
TEST_CASE("each process gets what is for it", "[distribution]") {
  Communicator& all = testing::started_processes();
  const std::size_t me = all.rank(), size = all.size();
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{3000000}}) {
    std::vector<std::string> messages;
    for (std::size_t to = 0; to < size; ++to)
      messages.push_back(std::to_string(me) + ">" + std::to_string(to) + std::string(length * (to + 1), 'x'));
    const std::vector<std::string> received = all.all_to_all(std::move(messages));
    REQUIRE(received.size() == size);
    for (std::size_t from = 0; from < size; ++from)
      CHECK((received[from] == std::to_string(from) + ">" + std::to_string(me) + std::string(length * (me + 1), 'x')));
  }
  const std::vector<std::string> gathered = all.all_gather(std::string(me, 'a'));
  for (std::size_t from = 0; from < size; ++from) CHECK(gathered[from] == std::string(from, 'a'));
  std::string word = "from " + std::to_string(me);
  all.broadcast(word, size - 1);
  CHECK(word == "from " + std::to_string(size - 1));
  float values[] = {1, static_cast<float>(me)};
  all.sum(std::span<float>(values));
  CHECK(values[0] == static_cast<float>(size));
  CHECK(values[1] == static_cast<float>(size * (size - 1) / 2));
  CHECK(all.any(me == 0));
  CHECK(!all.any(false));
  all.barrier();
}

TEST_CASE("sums on GPUs, or one line that says why not") {
  const auto alone = make_local_communicator();
  std::unique_ptr<Communicator> nccl;
  try {
    nccl = make_nccl_communicator(*alone);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kMissing);
    const std::string why = error.what();
    const bool known = why.find("NCCL") != std::string::npos || why.find("CUDA") != std::string::npos;
    CHECK(known);
    return;
  }
  std::vector<float> values(1000, 2);
  nccl->sum(std::span(values));
  CHECK(values == std::vector<float>(1000, 2));
}
