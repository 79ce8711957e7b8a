#include "generator/enumeration/state.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "base/temporary_folder.h"
#include "generator/run/generator.h"
#include "graph/file.h"
#include "operators/testing/share.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

struct Killed {};

// Under sanitizers each run takes some 10 s: smaller and fewer ones.
constexpr const char* kOperators =
    testing::kSanitized ? "Add,Relu,split(axis=1),concat(axis=1)" : "Add,Mul,Relu,split(axis=1),concat(axis=1)";

GenerateOptions small() { return {.operators = kOperators, .max_operators = 2}; }

std::string rules_of(const Generated& found) { return write_rules(found.rules, RuleFormat::kBinary); }

// Runs until the state has been written `reports` times, or to the end.
std::optional<Generated> run_until(GenerateOptions options, const std::filesystem::path& folder, int reports) {
  options.state = folder;
  options.state_interval = 0;
  options.progress = [&](const std::string&, double, const std::string&) {
    if (--reports < 0) throw Killed();
  };
  try {
    return generate(options);
  } catch (const Killed&) {
    return std::nullopt;
  }
}

ErrorCode refusal(const GenerateOptions& given, const std::filesystem::path& folder, std::string& message) {
  GenerateOptions options = given;
  options.state = folder;
  try {
    generate(options);
  } catch (const Error& e) {
    message = e.what();
    return e.code();
  }
  FAIL("it was accepted");
  return ErrorCode::kCancelled;
}

std::string contents(const std::filesystem::path& file) { return std::string(map_file(file).text()); }
void put(const std::filesystem::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

}  // namespace

TEST_CASE("a run that ends anywhere goes on to the same result", "[state]") {
  const std::string expected = rules_of(generate(small()));
  int interrupted = 0;
  for (int step = 1; step < 400; step += testing::kSanitized ? 8 * step : 1 + step / 2) {
    const TemporaryFolder folder;
    std::optional<Generated> found = run_until(small(), folder.path(), step);
    if (!found) {
      ++interrupted;
      found = run_until(small(), folder.path(), 1 << 30);
    }
    INFO(step);
    REQUIRE(found);
    CHECK(rules_of(*found) == expected);
  }
  CHECK(interrupted >= (testing::kSanitized ? 2 : 6));
}

TEST_CASE("a run that never gets far comes to its end", "[state]") {
  const std::string expected = rules_of(generate(small()));
  const TemporaryFolder folder;
  std::optional<Generated> found;
  int runs = 0;
  for (int steps = 30; !found && runs < 200; steps += runs % 4 == 3, ++runs) found = run_until(small(), folder.path(), steps);
  REQUIRE(found);
  CHECK(runs > 3);
  CHECK(rules_of(*found) == expected);
  // A finished run can be repeated from its state.
  const std::optional<Generated> again = run_until(small(), folder.path(), 1 << 30);
  REQUIRE(again);
  CHECK(rules_of(*again) == expected);
}

TEST_CASE("little memory for records changes nothing", "[state]") {
  GenerateOptions options = small();
  const std::string expected = rules_of(generate(options));
  options.buffer = 5000;
  CHECK(rules_of(generate(options)) == expected);
}

TEST_CASE("a stopped run writes what it has and can go on", "[state]") {
  const std::string expected = rules_of(generate(small()));
  for (int after = 1; after < 200; after += testing::kSanitized ? 120 : 60) {
    INFO(after);
    const TemporaryFolder folder;
    GenerateOptions options = small();
    std::stop_source source;
    int reports = 0;
    options.state = folder.path();
    options.stop = source.get_token();
    options.progress = [&](const std::string&, double, const std::string&) {
      if (++reports == after) source.request_stop();
    };
    const Generated part = generate(options);
    CHECK(part.complete == (reports < after));
    const std::optional<Generated> whole = run_until(small(), folder.path(), 1 << 30);
    REQUIRE(whole);
    CHECK(rules_of(*whole) == expected);
  }
}

TEST_CASE("the state of another run is refused", "[state]") {
  const TemporaryFolder folder;
  REQUIRE(!run_until(small(), folder.path(), 8));
  const std::string before = contents(folder.path() / "state");
  std::string message;
  GenerateOptions other = small();
  other.seed = 7;
  CHECK(refusal(other, folder.path(), message) == ErrorCode::kUsage);
  CHECK_THAT(message, Catch::Contains("the state of another run") && Catch::Contains("--seed 7"));
  other = small();
  other.max_operators = 3;
  CHECK(refusal(other, folder.path(), message) == ErrorCode::kUsage);
  CHECK(contents(folder.path() / "state") == before);

  const TemporaryFolder foreign;
  put(foreign.path() / "letter.txt", "hello");
  CHECK(refusal(small(), foreign.path(), message) == ErrorCode::kUsage);
  CHECK_THAT(message, Catch::Contains("letter.txt"));
  CHECK(!std::filesystem::exists(foreign.path() / "state"));
}

TEST_CASE("a damaged state is refused and stays", "[state]") {
  int files_damaged = 0;
  for (const int steps : {8, 200}) {
    if (testing::kSanitized && steps < 200) continue;
    const TemporaryFolder folder;
    run_until(small(), folder.path(), steps);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      if (entry.path().filename() != "lock" && entry.file_size() > 0) files.push_back(entry.path());
    for (const std::filesystem::path& file : files) {
      const std::string whole = contents(file), state = contents(folder.path() / "state");
      std::size_t known = whole.size();  // bytes beyond it are dropped
      if (file.filename() != "state") {
        const std::string entry = "file " + file.filename().string() + " ";
        const std::size_t at = state.find(entry);
        known = at == std::string::npos ? 0 : std::stoul(state.substr(at + entry.size()));
      }
      if (known == 0) continue;
      ++files_damaged;
      for (const std::size_t at : {std::size_t{0}, known / 2, known - 1}) {
        INFO(file << " " << at << " after " << steps);
        std::string flipped = whole, message;
        flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
        for (const std::string& damaged : {flipped, whole.substr(0, at)}) {
          put(file, damaged);
          CHECK(refusal(small(), folder.path(), message) == ErrorCode::kBadInput);
          CHECK(contents(file) == damaged);
        }
      }
      put(file, whole);
    }
    const std::optional<Generated> whole = run_until(small(), folder.path(), 1 << 30);
    REQUIRE(whole);
    CHECK(rules_of(*whole) == rules_of(generate(small())));
  }
  CHECK(files_damaged >= (testing::kSanitized ? 2 : 4));
}

TEST_CASE("a state of another version or number of processes is refused", "[state]") {
  const TemporaryFolder folder;
  REQUIRE(!run_until(small(), folder.path(), 8));
  const std::string state = contents(folder.path() / "state");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = state.substr(0, state.rfind("checksum "));
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    char sum[17];
    std::snprintf(sum, sizeof(sum), "%lx", static_cast<unsigned long>(checksum(text)));
    put(folder.path() / "state", text + "checksum " + sum + "\n");
  };
  std::string message;
  changed("state 1\n", "state 9\n");
  CHECK(refusal(small(), folder.path(), message) == ErrorCode::kBadInput);
  CHECK_THAT(message, Catch::Contains("another version"));
  changed("program ", "program 1");
  CHECK(refusal(small(), folder.path(), message) == ErrorCode::kBadInput);
  CHECK_THAT(message, Catch::Contains("another version"));
  changed("processes 1", "processes 2");
  CHECK(refusal(small(), folder.path(), message) == ErrorCode::kUsage);
  CHECK_THAT(message, Catch::Contains("of 2 processes, and there are 1"));
}

TEST_CASE("no space for the state is said, and the one before stays", "[state]") {
  const TemporaryFolder folder;
  REQUIRE(!run_until(small(), folder.path(), 8));
  const std::string before = contents(folder.path() / "state");
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small_files{600, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small_files);
  ErrorCode code = ErrorCode::kCancelled;
  try {
    run_until(small(), folder.path(), 1 << 30);
  } catch (const Error& e) {
    code = e.code();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  CHECK(code == ErrorCode::kMissing);
  const std::optional<Generated> whole = run_until(small(), folder.path(), 1 << 30);
  REQUIRE(whole);
  CHECK(rules_of(*whole) == rules_of(generate(small())));
}
