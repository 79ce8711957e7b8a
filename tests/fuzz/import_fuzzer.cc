// Arbitrary bytes as an ONNX model: if imported, it is exported and imported again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "graph/onnx/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rewright::graph::ImportOptions options;
  options.max_bytes = std::size_t{64} << 20;
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const rewright::graph::Graph graph = rewright::graph::import_onnx_bytes(bytes, "fuzz.onnx", options);
    const std::string exported = rewright::graph::export_onnx_bytes(graph, {.check = false});
    rewright::graph::import_onnx_bytes(exported, "exported.onnx", options);
  } catch (const rewright::Error&) {
  }
  return 0;
}
