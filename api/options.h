// Options as people write them: quantities with units.
#pragma once

#include <cstddef>
#include <string>

namespace rewright::api {

// "60s", "2m", "1500ms", "1h" -> seconds; "8G", "512M" -> bytes. Throw Error(kUsage).
double parse_seconds(const std::string& text);
std::size_t parse_bytes(const std::string& text);
// The shortest texts with the same value.
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

}  // namespace rewright::api
