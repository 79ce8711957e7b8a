#include "generator/enumeration/last_level.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/parallel.h"
#include "base/process_memory.h"
#include "operators/readings/number_system.h"

namespace rewright::generator {

namespace {

constexpr std::uint64_t kFirstOrder = std::uint64_t{1} << 34;  // members of lower levels come first

// An output of an application of the last level.
struct Record {
  std::uint64_t first, second;  // the fingerprint; its type is the form's
  std::uint64_t order : 63, zero : 1;
  FormId form;
  std::array<ClassId, 3> operands;
  std::uint64_t spread() const { return first; }
};

// An output of an application with several outputs. Another output may belong to the same equation.
struct Part {
  std::uint64_t order;
  std::uint64_t zero;
  Graphlet left, right;
  std::uint64_t spread() const { return FieldArithmetic::mix(1, order >> 3); }
};

struct Found : Candidate {
  std::uint64_t spread() const { return FieldArithmetic::mix(2, hash); }
};

struct FingerprintHash {
  std::size_t operator()(const Fingerprint& f) const { return static_cast<std::size_t>(f.first); }
};

class Collector {
 public:
  Collector(Enumeration& enumeration, const CollectOptions& options, State& state, Communicator& communicator)
      : e_(enumeration),
        options_(options),
        state_(state),
        communicator_(communicator),
        threads_(enumeration.options().threads),
        levels_(enumeration.options().operators),
        zeros_(options.zeros && levels_ > 1) {}

  Collection run() {
    if (e_.complete() && work()) return std::move(result_);
    return finished_levels();
  }

 private:
  // Returns false if it was stopped.
  bool work() {
    result_.counters = state_.counters();
    if (!count_applications()) return false;
    if (state_.phase() == "candidates") return restore_candidates();
    const std::size_t memory = records_memory();
    records_.emplace(7, memory / 2 / sizeof(Record), state_.open("records"));
    parts_.emplace(4, memory / 8 / sizeof(Part), state_.open("parts"));
    found_.emplace(6, memory / 4 / sizeof(Found), state_.open("equations"));
    records_->restore(state_.length("records"));
    parts_->restore(state_.length("parts"));
    found_->restore(state_.length("equations"));
    std::string phase = state_.phase().empty() ? "enumerating" : state_.phase();
    std::size_t position = state_.position();
    if (phase == "enumerating") {
      if (!enumerate(position)) return false;
      phase = "comparing", position = 0;
    }
    e_.release_elements();
    records_->finish();
    if (phase == "comparing") {
      if (!compare(position)) return false;
      phase = "joining", position = 0;
    }
    records_->clear();
    parts_->finish();
    if (phase == "joining" && !join(position)) return false;
    found_->finish();
    deduplicate();
    return true;
  }

  // Counts without evaluating. Afterwards all forms that the level needs exist, with the same numbers in every run.
  bool count_applications() {
    e_.last_level([&](std::span<const Application> applications) {
      applications_ += applications.size();
      return !e_.options().stop.stop_requested();
    });
    return !communicator_.any(e_.options().stop.stop_requested());
  }

  // The memory for records: the allowed memory minus that of the values.
  std::size_t records_memory() const {
    if (options_.buffer > 0) return options_.buffer;
    // Includes what the later phases need: buffers, and an index of the members.
    const std::size_t least = (std::size_t{32} << 20) + e_.members().size() * 64;
    const std::size_t used = resident_bytes(), allowed = e_.options().memory;
    if (used + least > allowed)
      throw Error(ErrorCode::kMissing,
                  "the values of graphs of fewer than " + std::to_string(levels_) + " operators take " +
                      std::to_string(used >> 20) + " MiB, and at least " + std::to_string((used + least) >> 20) +
                      " MiB are needed",
                  {}, "allow more with --memory, or enumerate fewer operators");
    return (allowed - used) / 2;
  }

  bool step(const char* phase, std::size_t position, std::size_t total, const std::string& note) {
    const bool stop = state_.step(phase, position, result_.counters, [this] {
      records_->spill();
      parts_->spill();
      found_->spill();
    });
    if (options_.progress)
      options_.progress(phase, static_cast<double>(position) / static_cast<double>(std::max<std::size_t>(total, 1)), note);
    return !stop;
  }

  // Sends each record to the process that owns its partition.
  template <class R>
  void distribute(std::vector<std::vector<R>>& outgoing, Partitions<R>& to) {
    if (communicator_.size() == 1) {
      for (const R& record : outgoing[0]) to.add(record);
      outgoing[0].clear();
      return;
    }
    std::vector<std::string> messages;
    for (std::vector<R>& records : outgoing) {
      messages.emplace_back(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(R));
      records.clear();
    }
    for (const std::string& message : communicator_.all_to_all(std::move(messages)))
      for (std::size_t at = 0; at < message.size(); at += sizeof(R)) {
        R record;
        std::memcpy(&record, message.data() + at, sizeof(R));
        to.add(record);
      }
  }

  // Process b mod K handles block b. After each round of K blocks the records are distributed.
  bool enumerate(std::size_t rounds_done) {
    const std::size_t rank = communicator_.rank(), size = communicator_.size();
    std::size_t block = 0;
    const GraphCounter counter(e_, levels_);
    if (rounds_done == 0 && rank == 0) result_.counters[Counters::kGraphs] = counter.graphs();
    std::vector<std::vector<Record>> outgoing(size);
    bool going = true;
    std::size_t done = 0;
    const std::size_t rounds = ((applications_ + Enumeration::kBlock - 1) / Enumeration::kBlock + size - 1) / size;
    const auto exchange = [&] {
      distribute(outgoing, *records_);
      return step("enumerating", block / size, rounds,
                  std::to_string(levels_) + " operators, " + std::to_string(done) + " applications");
    };
    e_.last_level([&](std::span<const Application> applications) {
      const std::size_t number = block++;
      const std::size_t first = done;
      done += applications.size();
      if (number / size < rounds_done) return true;
      if (number % size == rank) evaluate(applications, first, counter, outgoing);
      if (block % size == 0) going = exchange();
      return going;
    });
    if (going && block % size != 0) {
      block += size - block % size;
      if (block / size > rounds_done) going = exchange();
    }
    return going;
  }

  void evaluate(std::span<const Application> applications, std::size_t first, const GraphCounter& counter,
                std::vector<std::vector<Record>>& outgoing) {
    struct Output {
      Forms::Scratch scratch;
      std::vector<Residue> elements;
      std::vector<Record> records;
      double graphs = 0, zeros = 0;
    };
    std::vector<Output> outputs(static_cast<std::size_t>(std::max(threads_, 1)));
    const Forms& forms = e_.forms();
    parallel(threads_, applications.size(), 256, [&](std::size_t begin, std::size_t end, std::size_t thread) {
      Output& out = outputs[thread];
      for (std::size_t i = begin; i < end; ++i) {
        const Application& a = applications[i];
        const Form& form = forms.form(a.form);
        out.elements.resize(std::max(out.elements.size(), form.results));
        if (!e_.evaluate(a, out.scratch, out.elements.data())) continue;
        out.graphs += counter.graphs(a);
        for (std::uint32_t o = 0; o < form.outputs.size(); ++o) {
          const std::span<const Residue> elements(out.elements.data() + form.output_offsets[o],
                                                  forms.type(form.outputs[o]).elements);
          const Fingerprint f = fingerprint(form.outputs[o], elements);
          const bool zero = std::all_of(elements.begin(), elements.end(), [](Residue r) { return r == 0; });
          if (const ClassId known = zero ? e_.find(f) : kNoClass;
              known != kNoClass && zeros_ && form.outputs.size() == 1 && e_.classes()[known].zero) {
            ++out.zeros;
            continue;
          }
          out.records.push_back({f.first, f.second, kFirstOrder + ((first + i) << 3 | o), zero, a.form, a.operands});
        }
      }
    });
    for (const Output& out : outputs) {
      result_.counters[Counters::kGraphs] += out.graphs;
      result_.counters[Counters::kZeros] += out.zeros;
      result_.counters[Counters::kCandidates] += out.zeros;
      for (const Record& r : out.records) outgoing[records_->partition(r) % communicator_.size()].push_back(r);
    }
  }

  // In each round every process compares one partition; in the last round, members of the levels below.
  bool compare(std::size_t rounds_done) {
    const std::size_t size = communicator_.size(), rounds = (records_->count() + size - 1) / size;
    std::vector<std::vector<Part>> parts(size);
    std::vector<std::vector<Found>> found(size);
    if (rounds_done == 0 && communicator_.rank() == 0)
      result_.counters[Counters::kFingerprints] += static_cast<double>(e_.classes().size());
    for (std::size_t round = rounds_done; round <= rounds; ++round) {
      const std::size_t partition = round * size + communicator_.rank();
      if (round == rounds)
        send(compare_members(communicator_.rank(), size), found);
      else if (partition < records_->count())
        compare_partition(partition, parts, found);
      distribute(parts, *parts_);
      distribute(found, *found_);
      if (!step("comparing", round + 1, rounds + 1, "")) return false;
    }
    return true;
  }

  void compare_partition(std::size_t partition, std::vector<std::vector<Part>>& parts, std::vector<std::vector<Found>>& found) {
    struct Best {
      double cost;
      std::uint64_t order;
      FormId form;
      std::array<ClassId, 3> operands;
    };
    const Forms& forms = e_.forms();
    const auto fingerprint_of = [&](const Record& r) {
      return Fingerprint{forms.form(r.form).outputs[r.order & 7], r.first, r.second};
    };
    std::unordered_map<Fingerprint, Best, FingerprintHash> classes;
    records_->each(partition, [&](std::span<const Record> records) {
      for (const Record& r : records) {
        const Fingerprint f = fingerprint_of(r);
        if (e_.find(f) != kNoClass) continue;
        const double cost = e_.cost_of({r.form, r.operands});
        const auto [at, fresh] = classes.try_emplace(f);
        if (fresh || std::pair(cost, std::uint64_t{r.order}) < std::pair(at->second.cost, at->second.order))
          at->second = {cost, r.order, r.form, r.operands};
      }
    });
    result_.counters[Counters::kFingerprints] += static_cast<double>(classes.size());
    std::vector<Candidate> candidates;
    records_->each(partition, [&](std::span<const Record> records) {
      for (const Record& r : records) {
        const Fingerprint f = fingerprint_of(r);
        const ClassId known = e_.find(f);
        Graphlet right{.operands = {known, kNoClass, kNoClass}};
        bool zero = r.zero;
        if (known == kNoClass) {
          const Best& best = classes.find(f)->second;
          if (best.order == r.order) continue;
          right = {best.form, static_cast<std::uint32_t>(best.order & 7), best.operands};
        } else {
          zero = e_.classes()[known].zero;
        }
        const Graphlet left{r.form, static_cast<std::uint32_t>(r.order & 7), r.operands};
        if (forms.form(r.form).outputs.size() > 1) {
          const Part part{r.order, zero, left, right};
          parts[parts_->partition(part) % communicator_.size()].push_back(part);
        } else {
          add({.order = r.order, .left = left, .right = {right, {}}}, zero, candidates);
        }
      }
    });
    describe_all(candidates);
    send(candidates, found);
  }

  // A share of the equations between graphs below the last level.
  std::vector<Candidate> compare_members(std::size_t share, std::size_t shares) {
    const auto& members = e_.members();
    const auto best = [&](std::size_t m) {
      const Class& c = e_.classes()[members[m].result];
      return c.leaf == ~std::uint32_t{0} && c.best == m;
    };
    const auto pair = [&](std::size_t m) {
      return m + 1 < members.size() && members[m].output == 0 && members[m + 1].output == 1 &&
             members[m + 1].form == members[m].form && members[m + 1].operands == members[m].operands && !best(m) &&
             !best(m + 1);
    };
    const auto cheapest = [&](std::size_t m) { return Graphlet{.operands = {members[m].result, kNoClass, kNoClass}}; };
    std::vector<Candidate> candidates;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m / 4096 % shares != share || best(m) || (m > 0 && pair(m - 1))) continue;
      const Graphlet left{members[m].form, members[m].output, members[m].operands};
      if (pair(m))
        candidates.push_back({.order = m, .left = left, .right = {cheapest(m), cheapest(m + 1)}, .outputs = 2});
      else
        add({.order = m, .left = left, .right = {cheapest(m), {}}},
            e_.classes()[members[m].result].zero && m >= e_.first_member(2), candidates);
    }
    describe_all(candidates);
    return candidates;
  }

  void add(const Candidate& candidate, bool zero, std::vector<Candidate>& candidates) {
    if (zero && zeros_) {
      ++result_.counters[Counters::kZeros];
      ++result_.counters[Counters::kCandidates];
    } else {
      candidates.push_back(candidate);
    }
  }

  void describe_all(std::vector<Candidate>& candidates) {
    std::vector<std::uint8_t> different(candidates.size());
    parallel(threads_, candidates.size(), 64, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t i = begin; i < end; ++i) different[i] = describe(candidates[i], e_);
    });
    std::size_t count = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (different[i]) candidates[count++] = candidates[i];
    candidates.resize(count);
    result_.counters[Counters::kCandidates] += static_cast<double>(count);
  }

  void send(const std::vector<Candidate>& candidates, std::vector<std::vector<Found>>& found) {
    for (const Candidate& c : candidates) {
      const Found f{c};
      found[found_->partition(f) % communicator_.size()].push_back(f);
    }
  }

  // Equations of both outputs of one application become one equation.
  bool join(std::size_t rounds_done) {
    const std::size_t size = communicator_.size(), rounds = (parts_->count() + size - 1) / size;
    std::vector<std::vector<Found>> found(size);
    for (std::size_t round = rounds_done; round < rounds; ++round) {
      const std::size_t partition = round * size + communicator_.rank();
      std::vector<Part> parts;
      if (partition < parts_->count())
        parts_->each(partition, [&](std::span<const Part> p) { parts.insert(parts.end(), p.begin(), p.end()); });
      std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.order < b.order; });
      std::vector<Candidate> candidates;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Part& p = parts[i];
        if ((p.order & 7) == 0 && i + 1 < parts.size() && parts[i + 1].order == p.order + 1) {
          candidates.push_back({.order = p.order, .left = p.left, .right = {p.right, parts[i + 1].right}, .outputs = 2});
          ++i;
        } else {
          add({.order = p.order, .left = p.left, .right = {p.right, {}}}, p.zero, candidates);
        }
      }
      describe_all(candidates);
      send(candidates, found);
      distribute(found, *found_);
      if (!step("joining", round + 1, rounds, "")) return false;
    }
    return true;
  }

  void keep_first(const Candidate& c, std::unordered_map<std::uint64_t, std::size_t>& known, std::vector<Candidate>& kept) {
    const auto [at, fresh] = known.try_emplace(c.hash, kept.size());
    if (fresh || !options_.renamings) {
      kept.push_back(c);
      return;
    }
    ++result_.counters[Counters::kRenamings];
    if (c.order < kept[at->second].order) kept[at->second] = c;
  }

  // Keeps the first of equations that are equal up to names.
  void deduplicate() {
    std::vector<Candidate> mine;
    for (std::size_t p = 0; p < found_->count(); ++p) {
      std::unordered_map<std::uint64_t, std::size_t> known;
      found_->each(p, [&](std::span<const Found> found) {
        for (const Found& f : found) keep_first(f, known, mine);
      });
    }
    found_->clear();
    const std::string message(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(Candidate));
    std::vector<Candidate>().swap(mine);
    for (const std::string& part : communicator_.all_gather(message)) append(part);
    std::sort(result_.candidates.begin(), result_.candidates.end(), comes_before);
    communicator_.sum(std::span<double>(result_.counters.values));
    save_candidates();
  }

  void append(std::string_view bytes) {
    const std::size_t before = result_.candidates.size(), count = bytes.size() / sizeof(Candidate);
    result_.candidates.resize(before + count);
    if (count == 0) return;  // empty: there is no address to pass
    std::memcpy(static_cast<void*>(result_.candidates.data() + before), bytes.data(), count * sizeof(Candidate));
  }

  void save_candidates() {
    const auto file = state_.open("candidates");
    file->clear();
    constexpr std::size_t kPiece = 1 << 16;
    if (communicator_.rank() == 0)
      for (std::size_t i = 0; i < result_.candidates.size(); i += kPiece)
        file->append(0, {reinterpret_cast<const char*>(&result_.candidates[i]),
                         std::min(kPiece, result_.candidates.size() - i) * sizeof(Candidate)});
    for (const char* name : {"records", "parts", "equations"}) state_.close(name);
    Counters once = communicator_.rank() == 0 ? result_.counters : Counters{};
    state_.write("candidates", 0, once);
  }

  bool restore_candidates() {
    std::string all;
    state_.open("candidates")->restore(state_.length("candidates"), [&](std::uint32_t, std::uint64_t, std::string_view bytes) {
      all += bytes;
    });
    communicator_.broadcast(all, 0);
    append(all);
    for (const char* name : {"records", "parts", "equations"}) state_.close(name);
    communicator_.sum(std::span<double>(result_.counters.values));
    return true;
  }

  // The result of an interrupted run: the finished levels only.
  Collection finished_levels() {
    records_.reset(), parts_.reset(), found_.reset();
    e_.release_elements();
    result_ = {};
    result_.complete = false;
    result_.counters[Counters::kGraphs] = GraphCounter(e_, e_.finished_levels()).graphs();
    result_.counters[Counters::kFingerprints] = static_cast<double>(e_.classes().size());
    std::unordered_map<std::uint64_t, std::size_t> known;
    for (const Candidate& c : compare_members(0, 1)) keep_first(c, known, result_.candidates);
    std::sort(result_.candidates.begin(), result_.candidates.end(), comes_before);
    return std::move(result_);
  }

  Enumeration& e_;
  const CollectOptions& options_;
  State& state_;
  Communicator& communicator_;
  int threads_;
  std::size_t levels_;
  bool zeros_;
  std::size_t applications_ = 0;  // of the last level
  Collection result_;
  std::optional<Partitions<Record>> records_;
  std::optional<Partitions<Part>> parts_;
  std::optional<Partitions<Found>> found_;
};

}  // namespace

Collection collect(Enumeration& enumeration, const CollectOptions& options, State& state, Communicator& communicator) {
  return Collector(enumeration, options, state, communicator).run();
}

Collection collect(Enumeration& enumeration, const CollectOptions& options) {
  const auto alone = make_local_communicator();
  State state({.temporary = std::filesystem::temp_directory_path()}, *alone);
  return collect(enumeration, options, state, *alone);
}

}  // namespace rewright::generator
