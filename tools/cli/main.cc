// The program: one file for each subcommand. An error is one line on standard error; the exit status tells its kind.
#include <cstdio>
#include <new>

#include "tools/cli/command.h"
#include "tools/cli/version.h"

namespace rewright::cli {
namespace {

// Replaces control characters and Unicode line breaks in texts from files, which would break the line.
std::string one_line(std::string text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte(i) == '\n' || byte(i) == '\r')
      text[i] = ' ';
    else if (byte(i) < 0x20 || byte(i) == 0x7f)
      text[i] = '?';
    else if (byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0)  // U+0080 to U+009F
      text.replace(i, 2, "?");
    else if (byte(i) == 0xe2 && byte(i + 1) == 0x80 && (byte(i + 2) == 0xa8 || byte(i + 2) == 0xa9))  // U+2028, U+2029
      text.replace(i, 3, "?");
  }
  return text;
}

int fail(const std::string& line, int status) {
  std::fprintf(stderr, "rewright: error: %s\n", one_line(line).c_str());
  return status;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return kWrongUsage;
    case ErrorCode::kBadInput:
      return kBadInput;
    case ErrorCode::kUnsupported:
    case ErrorCode::kMissing:
      return kMissing;
    case ErrorCode::kCancelled:
      return kMissing;
  }
  return kMissing;
}

int run(int argc, char** argv) {
  CLI::App program("Rewright optimizes ONNX models: it rewrites them by rules and keeps what is measured to be faster.",
                   "rewright");
  program.set_version_flag("--version", version_text);
  program.require_subcommand(1);
  program.failure_message(CLI::FailureMessage::simple);
  constexpr AddCommand kCommands[] = {add_optimize, add_run,   add_bench,    add_compare, add_show,       add_replay,
                                      add_generate, add_rules, add_verify,   add_models,  add_profile,    add_conformance,
                                      add_train,    add_plan,  add_complete, add_prove,   add_time_graphs};
  Run chosen;
  for (const AddCommand add : kCommands) add(program, chosen);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    return fail(std::string(error.what()) + " (see rewright --help)", kWrongUsage);
  } catch (...) {  // the option cannot have this value
    return report_failure();
  }
  try {
    return chosen();
  } catch (...) {
    return report_failure();
  }
}

}  // namespace

int report_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return fail(error.what(), status_of(error.code()));
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kMissing);
  } catch (const std::exception& error) {
    return fail(error.what(), kMissing);
  }
}

}  // namespace rewright::cli

int main(int argc, char** argv) {
  rewright::cli::prepare_interruption();
  return rewright::cli::run(argc, argv);
}
