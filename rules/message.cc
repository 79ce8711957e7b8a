#include "rules/message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include "base/error.h"

namespace rewright::rules {

namespace {

using google::protobuf::Message;

constexpr int kDeepest = 100;  // limit of nested messages

// Keeps the first message of the text format's parser.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    if (!text.empty()) return;
    text = message;
    where = line + 1;
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  std::string text;
  int where = 0;
};

void check_version(const Message& message, const std::string& name, const Format& format) {
  const auto* const field = message.GetDescriptor()->FindFieldByName("version");
  const std::uint32_t version = message.GetReflection()->GetUInt32(message, field);
  if (version != format.version)
    throw Error(ErrorCode::kBadInput,
                std::string(format.what) + " of version " + std::to_string(version) + " of the format, this program reads " +
                    std::to_string(format.version),
                name, version > format.version ? "use a newer program" : "");
}

bool parse_text(std::string_view bytes, Message& message, FirstError& errors, bool unknown_fields) {
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kDeepest);
  parser.AllowUnknownField(unknown_fields);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return parser.Parse(&stream, &message);
}

}  // namespace

void parse_binary(std::string_view bytes, const std::string& name, const Format& format, Message& message) {
  const google::protobuf::LogSilencer silencer;  // otherwise Protobuf prints errors
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kDeepest);
  if (!message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw Error(ErrorCode::kBadInput, "this is not " + std::string(format.what) + ", or it was cut", name);
  check_version(message, name, format);
}

void parse_text(std::string_view bytes, const std::string& name, const Format& format, Message& message) {
  const google::protobuf::LogSilencer silencer;
  FirstError errors;
  const bool is_text = bytes.find('\0') == std::string_view::npos;
  if (is_text && parse_text(bytes, message, errors, false)) return check_version(message, name, format);
  // Fields from a newer version may be unknown here.
  FirstError ignored;
  message.Clear();
  if (is_text && parse_text(bytes, message, ignored, true)) check_version(message, name, format);
  throw Error(ErrorCode::kBadInput, "this is not " + std::string(format.what) + (errors.text.empty() ? "" : ": " + errors.text),
              errors.where > 0 ? name + ":" + std::to_string(errors.where) : name);
}

}  // namespace rewright::rules
