// Parts of execution that the interpreter shares with the sessions of backends, which use them for nodes without a kernel.
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

// How often the graph inside a node is executed: perhaps once, or in every step of a long loop.
enum class Repetition { kAny, kOften };
using PrepareGraph = std::function<std::unique_ptr<Executable>(Graph, Repetition)>;

// Executes an opaque node by its ONNX form, any number of times; not by several threads at once.
class OpaqueExecution {
 public:
  // `checkpoint` must outlive this object; the graph need not.
  OpaqueExecution(const Graph& graph, const Node& node, PrepareGraph prepare, const Checkpoint& checkpoint);
  ~OpaqueExecution();
  OpaqueExecution(const OpaqueExecution&) = delete;
  OpaqueExecution& operator=(const OpaqueExecution&) = delete;

  // Takes the node's inputs and returns its outputs, in their order. Throws Error(kUnsupported) if the node cannot be executed.
  std::vector<Datum> run(std::span<const Datum> inputs);
  const std::string& operator_type() const;  // "Loop"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error(kUnsupported) that names the first node that cannot be executed; called before a session is made.
void require_executable(const Graph& graph);

// Does a node draw random numbers?
bool has_random_results(const Graph& graph);

// The numbers that the named sizes of a graph stand for, by name.
using BoundSizes = std::map<std::string, std::int64_t>;
BoundSizes bound_sizes(const Graph& graph, std::span<const Tensor> inputs);
// Adds the named sizes in the types of an opaque node's results, once those were computed. Throws Error(kBadInput) if the
// elements are of another type than the model declares.
void bind_results(const Graph& graph, const Node& node, std::span<const Datum> results, BoundSizes& bound);
// The substitution of these sizes; `bound` must outlive it.
Substitution substitution(const BoundSizes& bound);
Attributes substitute(const Attributes& attributes, const Substitution& sizes);

// Converts each to a tensor. An absent value or a sequence becomes an empty tensor.
std::vector<Tensor> tensors_or_none(std::span<const Datum> data);

// A graph's outputs as tensors. Throws Error(kUnsupported) if one is not a tensor.
std::vector<Tensor> tensors_of(const Graph& graph, std::span<const Datum> outputs);

// The node's place in messages.
std::string where_of(const Graph& graph, const Node& node);

}  // namespace rewright::graph
