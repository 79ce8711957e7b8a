// Models for tests, in ONNX's text syntax.
#pragma once

#include <string>

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "base/error.h"

namespace rewright::graph {

// A model of opset 17 (or another) around a graph like: agraph (float[N] x) => (float[N] y) { y = Relu(x) }
// `more_opsets`: ", \"domain\" : 1". Throws Error(kUsage) if the text does not parse.
inline onnx::ModelProto text_model(const std::string& graph, int opset = 17, const std::string& more_opsets = "") {
  onnx::ModelProto model;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + more_opsets + "]>\n" + graph;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) throw Error(ErrorCode::kUsage, status.ErrorMessage());
  return model;
}

inline std::string text_bytes(const std::string& graph, int opset = 17, const std::string& more_opsets = "") {
  return text_model(graph, opset, more_opsets).SerializeAsString();
}

}  // namespace rewright::graph
