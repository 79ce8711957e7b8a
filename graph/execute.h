// What those who execute graphs share: the interpreter here, and sessions that give it what their backend has no kernels for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "operators/procedure.h"

namespace rewright::graph {

// How the graphs inside of nodes are executed: a few times, maybe, or in every step of a long loop.
enum class Repetition { kAny, kOften };
using PrepareGraph = std::function<std::unique_ptr<Executable>(Graph, Repetition)>;

// An opaque node, executed by its ONNX form again and again; not by several threads at once.
class OpaqueExecution {
 public:
  // `checkpoint` must outlive it, and the graph need not.
  OpaqueExecution(const Graph& graph, const Node& node, PrepareGraph prepare, const Checkpoint& checkpoint);
  ~OpaqueExecution();
  OpaqueExecution(const OpaqueExecution&) = delete;
  OpaqueExecution& operator=(const OpaqueExecution&) = delete;

  // `inputs` are the node's, in their order. One result for each of the node's outputs. Throws Error(kUnsupported) if nothing
  // here can execute it.
  std::vector<Datum> run(std::span<const Datum> inputs);
  const std::string& operator_type() const;  // "Loop"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error(kUnsupported) that names the first node which nothing here can execute, so that a session is not made in vain.
void require_executable(const Graph& graph);

// Does it hold a node whose results are drawn at random?
bool has_random_results(const Graph& graph);

// What the named sizes of a graph are.
using BoundSizes = std::map<std::string, std::int64_t>;
BoundSizes bound_sizes(const Graph& graph, std::span<const Tensor> inputs);
// What an opaque node computed says the sizes that its types only name. Throws Error(kBadInput) if its elements are of another
// type than the model says.
void bind_results(const Graph& graph, const Node& node, std::span<const Datum> results, BoundSizes& bound);
// `bound` must outlive it.
Substitution substitution(const BoundSizes& bound);
Attributes substitute(const Attributes& attributes, const Substitution& sizes);

// The tensors among these, and none for what is absent or a sequence.
std::vector<Tensor> tensors_or_none(std::span<const Datum> data);

// What a graph's outputs are, where all are tensors. Throws Error(kUnsupported) for one that is not.
std::vector<Tensor> tensors_of(const Graph& graph, std::span<const Datum> outputs);

// A node, for messages.
std::string where_of(const Graph& graph, const Node& node);

}  // namespace rewright::graph
