// Dialects of ONNX: models with ONNX's own operators alone, and models with those of ONNX Runtime.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

enum class Dialect {
  kAsGiven,      // nodes keep the operators that the model has
  kStandard,     // ONNX's own operators alone
  kOnnxRuntime,  // ONNX Runtime's own operators as well
};

std::string_view name(Dialect dialect);  // "as-given", "standard", "onnxruntime"

// A node that has no form in ONNX's own operators.
struct NotStandard {
  std::string node, type;  // "Conv_12", "com.microsoft.Foo"
  std::string reason;
};

struct StandardGraph {
  Graph graph;
  int opset = 0;  // of ONNX's own domain: the model's, or the first one that has all operators that are written
  std::vector<NotStandard> left;
};

// The graph with the bodies of all calls of operators of other domains (ONNX Runtime's, and functions of the model), also
// inside of If, Loop and Scan. The domains ai.onnx.* count as ONNX's own. Domains that nothing uses any more are not imported.
//
// Bodies may need a later opset than the model's: then all of the model is written in that opset, node by node from its
// meaning where the operator changed in between. A node that the library only keeps (LSTM, ...) and that means something else
// in the later opset holds the opset back; the calls that need it are left.
StandardGraph in_standard_dialect(const Graph& graph);

}  // namespace rewright::graph
