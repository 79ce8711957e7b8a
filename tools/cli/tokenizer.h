// Texts to tokens and back, in a helper process: tokenizers are libraries of Python (python/rewright/tokenizer.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rewright::runtime {
class Worker;  // runtime/onnxruntime/worker.h
}

namespace rewright::cli {

std::string_view tokenizer_script();  // the text of the Python file, compiled in

// The tokenizer of a language model's folder. All throw Error: kMissing if Python or a package is missing, kBadInput if the
// folder's files are.
class Tokenizer {
 public:
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  // The tokens of a text; with `is_chat`, of a conversation in which it is the user's first message.
  std::vector<std::int64_t> encode(const std::string& text, bool is_chat);
  // The next piece of the text that goes on what was encoded. Characters may come later than their first token.
  std::string put(std::int64_t token);
  std::string rest();  // what is left at the end

 private:
  nlohmann::json ask(const nlohmann::json& request);
  std::unique_ptr<runtime::Worker> worker_;
};

}  // namespace rewright::cli
