// Operators that ONNX, or a model, defines as functions: by a body of other nodes.
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

// A function's body for one call: names of values start with `prefix`, attributes have the values of the call. Inputs and
// outputs have the names of the function's parameters, with the prefix; parameters that the call leaves out are not read.
struct FunctionBody {
  std::vector<onnx::NodeProto> nodes;
  std::vector<std::string> inputs;   // one for each input of the call
  std::vector<std::string> outputs;  // one for each output of the call
  std::map<std::string, int> opsets;
};

// The model's functions, to be found by their calls. Of several with one name the first counts.
void index_functions(ImportedModel& model);
// The function of the model that a node calls; null if there is none.
const onnx::FunctionProto* find_local_function(const ImportedModel& model, const onnx::NodeProto& call);

// Throws Error(kBadInput) if the call does not fit the function.
FunctionBody body_of_call(const onnx::FunctionProto& function, const onnx::NodeProto& call,
                          const std::map<std::string, int>& opsets, const std::string& prefix);

// A function that stands for a node, and its call.
struct FunctionCall {
  onnx::FunctionProto function;
  onnx::NodeProto call;
};

// A branch of an If as a function of what it captures, and the call that stands for the If when the branch is taken. Nothing
// where the branch is missing or has sparse weights.
std::optional<FunctionCall> call_of_branch(const onnx::NodeProto& node, bool condition);

// Adds a Constant node; the nodes and weights of a graph that has no sparse weights.
void add_constant_node(onnx::FunctionProto& function, const onnx::TensorProto& value, const std::string& name);
void add_body(const onnx::GraphProto& body, onnx::FunctionProto& function);

// What is known of a loop's inputs: sizes, and the only element of an integer or truth value.
struct LoopFacts {
  struct Input {
    std::optional<Indices> sizes;
    std::optional<std::int64_t> number;
  };
  std::vector<Input> inputs;
};
// A Loop, or a Scan from opset 9 on, with all its iterations one after the other, if their number is known, and not large. Else
// nothing, for one of the two with the reason.
std::optional<FunctionCall> unrolled_loop(const onnx::NodeProto& node, int opset, const LoopFacts& facts,
                                          const std::map<std::string, int>& opsets, std::string& reason);

// ---- Expansions: what a function's node stands for in a graph

// Takes the nodes of a graph from position `first` on, which a call was expanded into, and makes them members of an expansion:
// without those that the results do not need, and with equal ones merged. `results` may be replaced by equal values.
void make_expansion(Graph& graph, std::size_t first, std::string_view node_bytes, const std::string& name,
                    const std::vector<ValueId>& call_inputs, std::vector<ValueId>& results);

// The inputs and outputs of an expansion's call, if all its members are in the graph as they were made, and nothing outside
// reads their inner values. `members` by number; `is_read_outside` is asked for values.
struct IntactCall {
  std::vector<ValueId> inputs, outputs;
};
std::optional<IntactCall> intact_call(const Graph& graph, const Expansion& expansion, const std::vector<const Node*>& members,
                                      const std::function<bool(ValueId)>& is_read_outside);

// The nodes in the order in which they are to be written; calls that are intact stand for all their members.
struct Written {
  const Node* node;
  std::shared_ptr<const IntactCall> call;  // null: the node itself
};
std::vector<Written> order_of_writing(const Graph& graph);

}  // namespace rewright::graph
