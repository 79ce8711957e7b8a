// The bytes of an exported model, with its weights inside or in a file beside it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/onnx/model.h"

namespace rewright::graph {

// The bytes of a message as a list of pieces, so that weights are written without being copied.
class Pieces {
 public:
  void borrow(std::string_view bytes);
  void own(std::string bytes);
  void own_field(std::uint32_t number, std::string bytes);  // with tag and length
  void append(Pieces&& other);
  std::size_t size() const { return size_; }
  const std::vector<std::string_view>& list() const { return list_; }

 private:
  std::vector<std::unique_ptr<const std::string>> owned_;
  std::vector<std::string_view> list_;
  std::size_t size_ = 0;
};

struct Weight {
  std::string name;
  Tensor tensor;
  std::string_view proto;  // written unchanged; empty: a new TensorProto is made
};

// The weights in the file beside the model.
struct ExternalPart {
  std::string location = {};  // the file's name; empty: no such file is allowed
  std::vector<std::pair<std::size_t, std::span<const std::byte>>> tensors = {};  // offset, bytes
  std::vector<Tensor> stored = {};                                               // owners of the bytes
  std::size_t size = 0;
  // Offsets of bytes that are in a file already that several models share, by their address and number.
  bool is_shared = false;
  std::map<std::pair<const std::byte*, std::size_t>, std::size_t> known = {};
};

// Appends initializers to a GraphProto. If they take more than `external_above` bytes together, their data go to `external`.
// The weights must outlive both.
void write_weights(const std::vector<Weight>& weights, std::size_t external_above, Pieces& graph, ExternalPart& external);

}  // namespace rewright::graph
