#include "runtime/planned/measure_exchanges.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "operators/operator.h"
#include "runtime/planned/planned_run.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;

constexpr std::size_t kExchanges = 8;  // of a round
constexpr int kLeastRounds = 4, kMostRounds = 500;
constexpr std::size_t kCopied = std::size_t{64} << 20;
constexpr int kCopies = 8;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// By process, known to all of them.
std::vector<double> of_all(Communicator& processes, double value) {
  std::vector<double> values(processes.size());
  values[processes.rank()] = value;
  processes.sum(std::span(values));
  return values;
}

// Pieces that negate this process's rows, of all of them where they are gathered before.
plans::LocalProgram chain(std::int64_t rows, const Communicator& processes, bool gathers) {
  const auto count = static_cast<std::int64_t>(processes.size()), first = static_cast<std::int64_t>(processes.rank()) * rows;
  distribution::TensorParts parts;
  for (std::int64_t p = 0; p < count; ++p) parts.rows.push_back({p * rows, (p + 1) * rows});
  plans::LocalProgram program;
  const auto value = [&](std::int64_t size) {
    program.values.push_back({"v" + std::to_string(program.values.size()), DataType::kFloat, {size}, {}});
    return program.values.size() - 1;
  };
  std::size_t at = value(rows);
  program.inputs.push_back({at, "x", DataType::kFloat, {}, {}});
  for (std::size_t n = 0; n < kExchanges; ++n) {
    plans::LocalPiece piece;
    const std::int64_t size = program.values[at].sizes[0];
    ValueId x = piece.graph.add_input("x", {DataType::kFloat, {Index(size)}});
    if (size > rows) {
      const Operator& slice = registry().get("Slice");
      Attributes attributes = slice.defaults();
      attributes[slice.field("begin").value()] = Indices{Index(first)};
      attributes[slice.field("length").value()] = Indices{Index(rows)};
      attributes[slice.field("step").value()] = Indices{Index(1)};
      x = piece.graph.add_node(slice, std::move(attributes), {x}).at(0);
    }
    const Operator& negate = registry().get("Neg");
    piece.graph.add_output("y", piece.graph.add_node(negate, negate.defaults(), {x}).at(0));
    const std::size_t mine = value(rows);
    piece.inputs = {at}, piece.outputs = {mine};
    program.pieces.push_back(std::move(piece));
    at = mine;
    if (!gathers) continue;
    at = value(rows * count);
    plans::LocalExchange exchange;
    exchange.exchange = plans::Exchange::kAllGather;
    exchange.from = mine, exchange.to = at, exchange.whole = {rows * count};
    exchange.before = parts;
    program.exchanges.push_back(std::move(exchange));
  }
  program.outputs.push_back({at, "y", DataType::kFloat, {}, {}});
  return program;
}

}  // namespace

std::vector<plans::MessageTime> measure_exchanges(Communicator& processes, const Backend& backend,
                                                  const SessionOptions& session, const MeasureExchangesOptions& options) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1024; bytes < options.most_bytes; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(options.most_bytes);
  const auto count = static_cast<double>(processes.size());
  std::vector<plans::MessageTime> times;
  for (const std::size_t bytes : sizes) {
    const auto rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float) / processes.size()));
    PlannedRun with(chain(rows, processes, true), processes, backend, session);
    PlannedRun without(chain(rows, processes, false), processes, backend, session);
    const Tensor x = Tensor::from_reals(DataType::kFloat, {rows}, std::vector<double>(static_cast<std::size_t>(rows), 1.0));
    double best[] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    double passed = 0;
    for (int n = 0; n < kMostRounds && (n < kLeastRounds || passed < options.seconds / static_cast<double>(sizes.size()));
         ++n) {
      if (processes.any(options.cancel.stop_requested()))
        throw Error(ErrorCode::kCancelled, "was interrupted", "measuring exchanges");
      for (const bool gathers : {true, false}) {
        processes.barrier();
        const std::vector<double> all = of_all(processes, seconds_of([&] { (gathers ? with : without).run({x}); }));
        const double slowest = *std::max_element(all.begin(), all.end());
        double& least = best[gathers ? 0 : 1];
        least = std::min(least, slowest), passed += slowest;
      }
    }
    const double sent = static_cast<double>(rows) * sizeof(float) * (count - 1);
    times.push_back({sent, std::max(1e-9, (best[0] - best[1]) / static_cast<double>(kExchanges))});
  }
  return times;
}

double measure_shared_memory(Communicator& processes) {
  std::vector<char> from(kCopied, 1), to(kCopied, 2);
  double best = 0;
  for (int n = 0; n < kCopies; ++n) {
    processes.barrier();
    const double seconds = seconds_of([&] { std::memcpy(to.data(), from.data(), kCopied); });
    double together = 0;
    for (const double s : of_all(processes, seconds)) together += 2.0 * static_cast<double>(kCopied) / s;
    best = std::max(best, together);
  }
  return best;
}

}  // namespace rewright::runtime
