#include "tools/cli/tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "runtime/onnxruntime/worker.h"

namespace rewright::cli {

namespace {

const runtime::WorkerProgram kProgram{"the tokenizer", tokenizer_script(),
                                      "set REWRIGHT_PYTHON to a Python that has the package tokenizers, or give --tokens"};

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& folder)
    : worker_(std::make_unique<runtime::Worker>(runtime::python_interpreter(), kProgram)) {
  ask({{"op", "open"}, {"folder", std::filesystem::absolute(folder).string()}});
}

Tokenizer::~Tokenizer() = default;

nlohmann::json Tokenizer::ask(const nlohmann::json& request) {
  constexpr double kSeconds = 120;
  nlohmann::json reply = worker_->ask(request, kSeconds);
  if (!reply.contains("failure")) return reply;
  const nlohmann::json& failure = reply["failure"];
  const auto text = [&](const char* name) { return failure.at(name).get<std::string>(); };
  throw Error(text("code") == "missing" ? ErrorCode::kMissing : ErrorCode::kBadInput, text("text"), text("where"),
              text("hint"));
}

std::vector<std::int64_t> Tokenizer::encode(const std::string& text, bool is_chat) {
  return ask({{"op", is_chat ? "chat" : "encode"}, {"text", text}}).at("tokens").get<std::vector<std::int64_t>>();
}

std::string Tokenizer::put(std::int64_t token) { return ask({{"op", "put"}, {"token", token}}).at("text").get<std::string>(); }

std::string Tokenizer::rest() { return ask({{"op", "rest"}}).at("text").get<std::string>(); }

}  // namespace rewright::cli
