#include <cctype>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "api/language/language_model.h"
#include "base/process_memory.h"
#include "graph/file.h"
#include "runtime/endable_run.h"
#include "tools/cli/command.h"
#include "tools/cli/request_options.h"
#include "tools/cli/tokenizer.h"

namespace rewright::cli {

namespace {

struct CompleteOptions {
  CommonOptions common;
  std::string folder, prompt, tokens, device = "cpu";
  bool is_chat = false;
  GenerationRequest request;
};

// Numbers with spaces, commas or line ends between them.
Tokens read_tokens(const std::string& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 26;
  const FileBytes bytes = map_file(file);
  if (bytes.bytes.size() > kMostBytes) throw Error(ErrorCode::kBadInput, "has more than 64 MB", file);
  std::string text(bytes.text());
  for (char& c : text)
    if (c == ',' || c == '[' || c == ']')
      c = ' ';
    else if (c == '\0')
      c = '?';  // it would end the message
  std::istringstream words(text);
  Tokens tokens;
  for (std::string word; words >> word;) {
    std::size_t used = 0;
    std::int64_t token = -1;
    try {
      token = std::stoll(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size()) throw Error(ErrorCode::kBadInput, "\"" + word.substr(0, 40) + "\" is no number of a token", file);
    tokens.push_back(token);
  }
  if (tokens.empty()) throw Error(ErrorCode::kBadInput, "has no tokens", file);
  return tokens;
}

struct Completed {
  Tokens tokens;  // new ones
  std::string text;
  GenerationTimes times;
};

// Says pieces as they come. With a tokenizer these are text, else numbers.
Completed complete(const CompleteOptions& options, Generation generation, Tokenizer* tokenizer, const std::stop_token& stop) {
  Completed done;
  const auto tell = [&](const std::string& piece) {
    say(options.common, piece);
    std::cout.flush();
  };
  const Checkpoint checkpoint = [&] {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "stopped");
  };
  const runtime::EndableRun endable(checkpoint);
  try {
    for (auto next = generation.next(); !next.empty(); next = generation.next()) {
      done.tokens.push_back(next.front().value());
      const std::string piece = tokenizer ? tokenizer->put(done.tokens.back())
                                          : (done.tokens.size() > 1 ? " " : "") + std::to_string(done.tokens.back());
      if (tokenizer) done.text += piece;
      tell(piece);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;  // what is there so far is the result
  }
  if (tokenizer) {
    const std::string rest = tokenizer->rest();
    done.text += rest;
    tell(rest);
  }
  tell("\n");
  done.times = generation.times();
  return done;
}

int complete_command(CompleteOptions options) {
  options.request.seed = options.common.seed;
  Interruption interruption;  // before threads start, which signals would otherwise end
  std::optional<Tokenizer> tokenizer;
  Tokens prompt;
  if (options.tokens.empty()) {
    tokenizer.emplace(options.folder);
    prompt = tokenizer->encode(options.prompt, options.is_chat);
  } else {
    prompt = read_tokens(options.tokens);
  }
  const LanguageModel model(options.folder, options.device, options.common.threads);
  const std::size_t prompt_tokens = prompt.size();
  const Completed done = complete(options, model.generate({std::move(prompt)}, options.request),
                                  tokenizer ? &*tokenizer : nullptr, interruption.token());
  std::ostringstream summary;
  summary << std::setprecision(3) << "prompt: " << prompt_tokens << " tokens, " << done.times.prompt_seconds << " s; then "
          << done.tokens.size() << " tokens, " << done.times.tokens_per_second() << " tokens/s\n";
  if (!options.common.quiet) std::cerr << summary.str();
  nlohmann::json report({{"tokens", done.tokens},
                         {"prompt_tokens", prompt_tokens},
                         {"prompt_seconds", done.times.prompt_seconds},
                         {"tokens_per_second", done.times.tokens_per_second()},
                         {"peak_bytes", peak_resident_bytes()}});
  report["text"] = tokenizer ? nlohmann::json(done.text) : nlohmann::json();
  write_json(options.common, report);
  return kDone;
}

}  // namespace

CLI::App* add_complete(CLI::App& program, Run& run) {
  const auto options = std::make_shared<CompleteOptions>();
  CompleteOptions& o = *options;
  CLI::App* command = add_command(program, "complete", "Let a language model go on with a text",
                                  "rewright complete smollm2 --prompt \"The capital of France is\" --max-tokens 20", o.common);
  command->add_option("folder", o.folder, "a folder as onnxruntime-genai has it: genai_config.json, the model, the tokenizer")
      ->required()
      ->type_name("FOLDER");
  CLI::Option* prompt = command->add_option("--prompt", o.prompt, "the text")->type_name("TEXT");
  CLI::Option* tokens =
      command->add_option("--tokens", o.tokens, "numbers of tokens instead, with spaces or commas between them")
          ->type_name("FILE");
  tokens->excludes(prompt);
  command->add_flag("--chat", o.is_chat, "the text is a message of a user: fill in the model's chat template")->needs(prompt);
  add_options(*command, o.request, generation_options());
  command->add_option("--device", o.device, "what runs it")
      ->type_name(device_syntax(DeviceUse::kSession))
      ->capture_default_str();
  command->callback([options, prompt, tokens, &run] {
    if (prompt->empty() && tokens->empty()) throw CLI::ValidationError("complete", "give --prompt or --tokens");
    run = [options] { return complete_command(*options); };
  });
  return command;
}

}  // namespace rewright::cli
