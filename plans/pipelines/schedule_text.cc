#include <charconv>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "plans/pipelines/pipeline_schedule.h"

namespace rewright::plans {

namespace {

constexpr std::string_view kFirstLine = "rewright pipeline 1";
constexpr char kLetters[] = {'F', 'B', 'W', 'U'};
constexpr std::string_view kGradients[] = {"none", "together", "apart"};
// The file is not trusted: what it may make us hold.
constexpr std::size_t kMostProcesses = 1 << 16, kMostStages = 1 << 16, kMostMicroBatches = 1 << 20, kMostActions = 1 << 23,
                      kLongestName = 200;

std::string_view next_word(std::string_view& rest) {
  const std::size_t begin = std::min(rest.find_first_not_of(" \t\r"), rest.size());
  rest.remove_prefix(begin);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r"));
  rest.remove_prefix(word.size());
  return word;
}

// Digits at the front of `text`, which are removed from it.
std::optional<std::size_t> leading_number(std::string_view& text) {
  std::size_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool remove_front(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

class ScheduleReader {
 public:
  ScheduleReader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  PipelineSchedule read() {
    if (!next_line() || line_ != kFirstLine) refuse("it is no schedule of a pipeline, or one of another version");
    while (next_line()) read_line();
    if (result_.stages == 0) refuse("it does not say how many stages there are");
    if (result_.micro_batches == 0) refuse("it does not say how many micro-batches there are");
    if (result_.processes.empty()) refuse("it has no processes");
    require_range();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kBadInput, what, name_ + (number_ > 0 ? " line " + std::to_string(number_) : ""));
  }

  // The next line that says something, without a comment.
  bool next_line() {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      line_ = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++number_;
      line_ = line_.substr(0, line_.find('#'));
      const std::size_t last = line_.find_last_not_of(" \t\r");
      line_ = line_.substr(0, last == std::string_view::npos ? 0 : last + 1);
      if (!line_.empty()) return true;
    }
    return false;
  }

  void read_line() {
    std::string_view rest = line_;
    const std::string_view word = next_word(rest);
    if (word == "process") return read_process(rest);
    const std::string_view value = next_word(rest);
    if (!next_word(rest).empty()) refuse("there is more behind \"" + std::string(value.substr(0, kLongestName)) + "\"");
    if (word == "name") {
      if (value.empty() || value.size() > kLongestName)
        refuse("a name has 1 to " + std::to_string(kLongestName) + " characters");
      result_.name = value;
    } else if (word == "stages") {
      result_.stages = number(value, kMostStages);
    } else if (word == "micro-batches") {
      result_.micro_batches = number(value, kMostMicroBatches);
    } else if (word == "steps") {
      result_.steps = number(value, kMostMicroBatches);
    } else if (word == "gradients") {
      result_.gradients = gradients(value);
    } else {
      refuse("\"" + std::string(word.substr(0, kLongestName)) +
             "\" is none of name, stages, micro-batches, steps, gradients and process");
    }
  }

  std::size_t number(std::string_view text, std::size_t most) const {
    const std::string given(text.substr(0, kLongestName));
    const std::optional<std::size_t> value = leading_number(text);
    if (!value || !text.empty() || *value < 1 || *value > most)
      refuse("\"" + given + "\" is no number from 1 to " + std::to_string(most));
    return *value;
  }

  GradientActions gradients(std::string_view text) const {
    for (std::size_t i = 0; i < std::size(kGradients); ++i)
      if (text == kGradients[i]) return static_cast<GradientActions>(i);
    refuse("gradients are none, together or apart");
  }

  void read_process(std::string_view rest) {
    const std::string_view given = next_word(rest);
    std::string_view word = given;
    const std::optional<std::size_t> process = leading_number(word);
    if (!process || word != ":") refuse("\"process\" is followed by its number and a colon");
    if (*process != result_.processes.size())
      refuse("process " + std::to_string(*process) + " stands where process " + std::to_string(result_.processes.size()) +
             " should");
    if (result_.processes.size() >= kMostProcesses) refuse("it has more than " + std::to_string(kMostProcesses) + " processes");
    auto& list = result_.processes.emplace_back();
    for (word = next_word(rest); !word.empty(); word = next_word(rest)) {
      if (++actions_ > kMostActions) refuse("it has more than " + std::to_string(kMostActions) + " actions");
      list.push_back(action(word));
    }
  }

  PipelineAction action(std::string_view word) const {
    const std::string given(word.substr(0, kLongestName));
    const auto wrong = [&] { refuse("\"" + given + "\" is no action: F1.2, B1.2, W1.2@3 or U1"); };
    PipelineAction result;
    bool known = false;
    for (std::size_t k = 0; k < std::size(kLetters) && !known; ++k)
      if (remove_front(word, kLetters[k])) result.kind = static_cast<ActionKind>(k), known = true;
    const auto part = [&](std::size_t most) -> std::uint32_t {
      const std::optional<std::size_t> value = leading_number(word);
      if (!value || *value > most) wrong();
      return static_cast<std::uint32_t>(*value);
    };
    if (!known) wrong();
    result.stage = part(kMostStages);
    if (result.kind != ActionKind::kUpdate) {
      if (!remove_front(word, '.')) wrong();
      result.micro_batch = part(kMostMicroBatches);
      if (remove_front(word, '@')) result.version = part(kMostMicroBatches);
    }
    if (!word.empty()) wrong();
    return result;
  }

  void require_range() const {
    if (result_.steps > kMostMicroBatches / result_.micro_batches)
      refuse("it has more than " + std::to_string(kMostMicroBatches) + " micro-batches");
    // The check allocates for all actions that there must be, however short the lists are.
    const std::size_t kinds = 1 + static_cast<std::size_t>(result_.gradients);
    if (result_.stages > kMostActions / kinds / result_.all_micro_batches())
      refuse("its stages and micro-batches are more than " + std::to_string(kMostActions) + " actions");
  }

  std::string_view text_, line_;
  std::string name_;
  std::size_t number_ = 0, actions_ = 0;
  PipelineSchedule result_;
};

}  // namespace

std::string to_string(const PipelineAction& action) {
  std::string text = kLetters[static_cast<std::size_t>(action.kind)] + std::to_string(action.stage);
  if (action.kind == ActionKind::kUpdate) return text;
  text += "." + std::to_string(action.micro_batch);
  if (action.version > 0) text += "@" + std::to_string(action.version);
  return text;
}

std::string write_schedule(const PipelineSchedule& schedule) {
  std::ostringstream text;
  text << kFirstLine << "\n";
  if (!schedule.name.empty()) text << "name " << schedule.name << "\n";
  text << "stages " << schedule.stages << "\nmicro-batches " << schedule.micro_batches << "\n";
  if (schedule.steps != 1) text << "steps " << schedule.steps << "\n";
  text << "gradients " << kGradients[static_cast<std::size_t>(schedule.gradients)] << "\n";
  for (std::size_t p = 0; p < schedule.processes.size(); ++p) {
    text << "process " << p << ":";
    for (const PipelineAction& a : schedule.processes[p]) text << " " << to_string(a);
    text << "\n";
  }
  return text.str();
}

PipelineSchedule read_schedule(std::string_view text, const std::string& name) { return ScheduleReader(text, name).read(); }

}  // namespace rewright::plans
