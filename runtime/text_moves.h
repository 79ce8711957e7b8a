// Nodes that move texts, executed on numbers that stand for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/execute.h"
#include "graph/graph.h"
#include "runtime/recently_used.h"
#include "runtime/session.h"

namespace rewright::runtime {

// Executes a node that copies and chooses texts (Gather, Concat, Where, ...), but does not compare them: the backend compiles
// the same node for integers, which say where in the operands each text of the result comes from. Where the result has all
// texts in their order, it shares their memory.
class TextMoves {
 public:
  // Null: the node does not move texts, or looks at them. `node` must outlive this object, as must the backend.
  static std::unique_ptr<TextMoves> of(const Graph& graph, const Node& node, const Backend& backend,
                                       const SessionOptions& options);
  // nullopt: there are so few elements that interpreting the node takes less time. Throws what interpreting throws.
  std::optional<std::vector<Datum>> run(std::span<const Datum> operands);
  // Calls `visit` for the session of each set of sizes.
  void for_each_session(const std::function<void(const Session&)>& visit) const;

 private:
  struct Prepared;
  using Key = std::vector<std::int64_t>;

  TextMoves(const Node& node, const Backend& backend, const SessionOptions& options, std::vector<Tensor> constants);
  std::shared_ptr<const Prepared> find(std::span<const Datum> operands);
  Prepared prepare(std::span<const Datum> operands) const;

  const Node& node_;
  const Backend& backend_;
  SessionOptions options_;
  std::vector<Tensor> constants_;  // by operand: numbers that are known; empty: given by each call
  RecentlyUsed<Key, const Prepared> prepared_;
};

}  // namespace rewright::runtime
