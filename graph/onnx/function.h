// Functions: operators that ONNX or a model defines by a body of other nodes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/model.h"

namespace rewright::graph {

// A function's body for one call. Names of values start with `prefix`; attributes have the values of the call. Inputs and
// outputs have the names of the function's parameters, after the prefix.
struct FunctionBody {
  std::vector<onnx::NodeProto> nodes;
  std::vector<std::string> inputs;   // one for each input of the call
  std::vector<std::string> outputs;  // one for each output of the call
  std::map<std::string, int> opsets;
};

// Fills model.functions, by domain, name and overload. The first of several equal ones wins.
void index_functions(ImportedModel& model);
// The function of the model that a node calls; null if there is none.
const onnx::FunctionProto* find_local_function(const ImportedModel& model, const onnx::NodeProto& call);

// Throws Error(kBadInput) if the call does not fit the function.
FunctionBody body_of_call(const onnx::FunctionProto& function, const onnx::NodeProto& call,
                          const std::map<std::string, int>& opsets, const std::string& prefix);

// A function made from a node, and the call that replaces the node.
struct FunctionCall {
  onnx::FunctionProto function;
  onnx::NodeProto call;
};

// A branch of an If as a function of the captured values, and the call that replaces the If when `condition` is known. nullopt
// if the branch is missing or has sparse weights.
std::optional<FunctionCall> call_of_branch(const onnx::NodeProto& node, bool condition);

// These add a Constant node, or the nodes and weights of a graph without sparse weights.
void add_constant_node(onnx::FunctionProto& function, const onnx::TensorProto& value, const std::string& name);
void add_body(const onnx::GraphProto& body, onnx::FunctionProto& function);

// The known facts about a loop's inputs: sizes, and the element of an integer or boolean scalar.
struct LoopFacts {
  struct Input {
    std::optional<Indices> sizes;
    std::optional<std::int64_t> number;
  };
  std::vector<Input> inputs;
};
// A Loop, or a Scan from opset 9 on, as the sequence of all its iterations, if their number is known and small. Else nullopt,
// with `reason` set if the node is a Loop or Scan.
std::optional<FunctionCall> unrolled_loop(const onnx::NodeProto& node, int opset, const LoopFacts& facts,
                                          const std::map<std::string, int>& opsets, std::string& reason);

// A Scan that applies its body to each entry alone, as that body on all entries at once. nullopt if a state changes, or the
// body has other nodes than functions of elements and reductions.
std::optional<FunctionCall> mapped_scan(const onnx::NodeProto& node, int opset, const LoopFacts& facts);

// ---- Expansions: calls that were replaced by the function's nodes (Expansion of graph/graph.h)

// Makes the nodes of a graph from position `first` on, into which a call was expanded, members of an expansion, after removing
// those that the results do not need and merging equal ones. Merging may replace entries of `results`.
void make_expansion(Graph& graph, std::size_t first, std::string_view node_bytes, const std::string& name,
                    const std::vector<ValueId>& call_inputs, std::vector<ValueId>& results);

// The inputs and outputs of an expansion's call; nullopt unless all its members are unchanged in the graph and nothing outside
// reads their inner values. `members` are in the order of their numbers.
struct IntactCall {
  std::vector<ValueId> inputs, outputs;
};
std::optional<IntactCall> intact_call(const Graph& graph, const Expansion& expansion, const std::vector<const Node*>& members,
                                      const std::function<bool(ValueId)>& is_read_outside);

// The members of an intact call in the order of their numbers, and the call.
struct CallGroup {
  std::vector<const Node*> members;
  std::shared_ptr<const IntactCall> call;
};
using CallGroups = std::map<const Expansion*, CallGroup>;
CallGroups intact_groups(const Graph& graph);

// The nodes in the order in which export writes them; an intact call replaces its members.
struct Written {
  const Node* node;
  std::shared_ptr<const IntactCall> call;  // null: the node itself
};
std::vector<Written> order_of_writing(const Graph& graph);

}  // namespace rewright::graph
