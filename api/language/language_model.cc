#include "api/language/language_model.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "api/language/decoder.h"
#include "base/error.h"

namespace rewright::api {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void require_possible(const Tokens& prompt, const LanguageConfig& config, const std::string& name) {
  if (prompt.empty()) throw Error(ErrorCode::kUsage, "has no tokens", name);
  for (const std::int64_t token : prompt)
    if (token < 0 || token >= config.vocabulary)
      throw Error(
          ErrorCode::kBadInput,
          "there is no token " + std::to_string(token) + ", the model's are from 0 to " + std::to_string(config.vocabulary - 1),
          name);
}

}  // namespace

struct Generation::State {
  // Sequences with one cache.
  struct Group {
    Cache cache;
    std::vector<std::size_t> members;
  };
  std::shared_ptr<const Decoder> decoder;
  std::vector<Tokens> sequences;
  std::vector<std::size_t> read;  // tokens of each sequence that are in the cache
  std::vector<bool> ended;
  std::vector<Choosing> choosing;
  std::vector<Sampler> samplers;
  std::vector<Group> groups;
  GenerationTimes times;

  // Lets the model read the new tokens of a group's sequences.
  std::vector<std::vector<float>> logits_of(Group& group) {
    std::vector<std::span<const std::int64_t>> tokens;
    for (const std::size_t s : group.members) {
      tokens.push_back(ended[s] ? std::span<const std::int64_t>() : std::span(sequences[s]).subspan(read[s]));
      read[s] = sequences[s].size();
    }
    return decoder->step(group.cache, tokens);
  }

  std::int64_t choose(std::size_t s, std::vector<float>& logits) {
    const Choosing& c = choosing[s];
    penalize_repetition(logits, sequences[s], c.repetition_penalty);
    if (sequences[s].size() < c.min_length)
      for (const std::int64_t end : c.ends)
        if (end < static_cast<std::int64_t>(logits.size()))
          logits[static_cast<std::size_t>(end)] = -std::numeric_limits<float>::infinity();
    const std::int64_t token = samplers[s].choose(logits);
    sequences[s].push_back(token);
    ended[s] = sequences[s].size() >= c.max_length || std::find(c.ends.begin(), c.ends.end(), token) != c.ends.end();
    return token;
  }

  bool has_ended(const Group& group) const {
    return std::all_of(group.members.begin(), group.members.end(), [&](std::size_t s) { return ended[s]; });
  }
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

const std::vector<Tokens>& Generation::sequences() const { return state_->sequences; }
const GenerationTimes& Generation::times() const { return state_->times; }

std::vector<std::optional<std::int64_t>> Generation::next() {
  State& state = *state_;
  const bool is_first = std::all_of(state.read.begin(), state.read.end(), [](std::size_t n) { return n == 0; });
  const Clock::time_point start = Clock::now();
  std::vector<std::optional<std::int64_t>> tokens(state.sequences.size());
  bool any = false;
  for (State::Group& group : state.groups) {
    if (state.has_ended(group)) continue;
    any = true;
    std::vector<std::vector<float>> logits = state.logits_of(group);
    for (std::size_t m = 0; m < group.members.size(); ++m)
      if (const std::size_t s = group.members[m]; !state.ended[s]) tokens[s] = state.choose(s, logits[m]);
  }
  if (!any) return {};
  if (is_first)
    state.times.prompt_seconds = seconds_since(start);
  else
    state.times.step_seconds += seconds_since(start), ++state.times.steps;
  return tokens;
}

LanguageModel::LanguageModel(const std::filesystem::path& folder, const std::string& device, int threads)
    : decoder_(std::make_shared<const Decoder>(folder, device, threads)) {}

const LanguageConfig& LanguageModel::config() const { return decoder_->config(); }

Generation LanguageModel::generate(std::vector<Tokens> prompts, const GenerationRequest& request) const {
  if (prompts.empty()) throw Error(ErrorCode::kUsage, "there is no prompt");
  auto state = std::make_unique<Generation::State>();
  state->decoder = decoder_;
  for (std::size_t s = 0; s < prompts.size(); ++s) {
    const std::string name = prompts.size() == 1 ? "the prompt" : "prompt " + std::to_string(s);
    require_possible(prompts[s], config(), name);
    try {
      state->choosing.push_back(choosing_for(request, config(), prompts[s].size()));
    } catch (const Error& error) {
      throw error.within(name);
    }
    state->samplers.emplace_back(state->choosing[s].sampling, request.seed, static_cast<std::uint32_t>(s));
    if (state->groups.empty() || !decoder_->runs_together())
      state->groups.push_back({Cache(decoder_->runs_together() ? prompts.size() : 1), {}});
    state->groups.back().members.push_back(s);
  }
  state->read.assign(prompts.size(), 0);
  state->ended.assign(prompts.size(), false);
  state->sequences = std::move(prompts);
  return Generation(std::move(state));
}

}  // namespace rewright::api
