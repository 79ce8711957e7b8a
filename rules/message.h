// Files that hold one Protobuf message whose first field, `version`, is the version of the format. For .cc files only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <google/protobuf/message.h>

namespace rewright::rules {

// A format's name in messages ("rules", "a device profile"), and the version this program reads.
struct Format {
  const char* what;
  std::uint32_t version;
};

// Reads Protobuf's binary or text form. Throws Error(kBadInput). For another version the error says only that, whatever the
// rest contains. `name` is the file's name in messages.
void parse_binary(std::string_view bytes, const std::string& name, const Format& format, google::protobuf::Message& message);
void parse_text(std::string_view bytes, const std::string& name, const Format& format, google::protobuf::Message& message);

// A binary file begins with the version's tag, which no text begins with.
inline bool is_binary(std::string_view bytes) { return bytes.starts_with('\x08'); }

}  // namespace rewright::rules
