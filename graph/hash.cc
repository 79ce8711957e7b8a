// The canonical hash of graphs: a Merkle hash over computations, blind to the order of nodes and the names of inner values.
#include <algorithm>
#include <string_view>

#include <xxhash.h>

#include "graph/graph.h"

namespace rewright::graph {

namespace {

// Like hash_mix(), with its own constants: certificates hold these hashes, so they never change.
class Hasher {
 public:
  explicit Hasher(std::string_view kind) { add(kind); }
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9fb21c651e98df25;
    state_ ^= state_ >> 35;
    state_ *= 0xff51afd7ed558ccd;
    state_ ^= state_ >> 28;
  }
  void add(std::string_view text) { add(XXH3_64bits(text.data(), text.size())); }
  void add(const TensorType& type, bool shape_known) {
    add(static_cast<std::uint64_t>(type.type));
    add(shape_known ? type.rank() + 1 : 0);
    if (!shape_known) return;
    for (const Index& size : type.shape) add(size.hash());
  }
  std::uint64_t get() const { return state_; }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

std::uint64_t node_hash(const Node& node, std::vector<std::uint64_t> inputs) {
  Hasher hasher(node.op != nullptr ? std::string_view(node.op->name()) : std::string_view("opaque"));
  if (node.op != nullptr) {
    hasher.add(hash(node.attributes));
    if (node.op->commutative() && inputs.size() >= 2 && inputs[1] < inputs[0]) std::swap(inputs[0], inputs[1]);
  } else if (node.origin) {
    hasher.add(node.origin->computation_hash);
  }
  hasher.add(inputs.size());
  for (std::uint64_t input : inputs) hasher.add(input);
  return hasher.get();
}

}  // namespace

std::uint64_t Value::constant_hash() const {
  std::uint64_t hash = cached_hash.get();
  if (hash == 0) {
    hash = std::max<std::uint64_t>(constant.content_hash(), 1);
    cached_hash.set(hash);
  }
  return hash;
}

std::vector<std::uint64_t> Graph::value_hashes() const {
  std::vector<std::uint64_t> hashes(values_.size());
  for (ValueId id = 0; id < values_.size(); ++id) {
    const Value& v = value(id);
    if (v.constant) {
      Hasher hasher("constant");
      hasher.add(v.constant_hash());
      hashes[id] = hasher.get();
    } else {  // a leaf that could not be read; inputs and nodes are set below
      Hasher hasher("leaf");
      hasher.add(v.name);
      hashes[id] = hasher.get();
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Value& v = value(inputs_[i]);
    Hasher hasher("input");
    hasher.add(i);
    hasher.add(v.name);
    hasher.add(v.type, v.shape_known);
    hashes[inputs_[i]] = hasher.get();
  }
  std::vector<std::uint64_t> inputs;
  for (const auto& node : nodes_) {
    inputs.clear();
    for (ValueId id : node->inputs) inputs.push_back(id == kNoValue ? 0 : hashes[id]);
    const std::uint64_t all = node_hash(*node, inputs);
    for (std::size_t i = 0; i < node->outputs.size(); ++i) {
      if (node->outputs[i] == kNoValue || is_constant(node->outputs[i])) continue;
      Hasher hasher("output");
      hasher.add(all);
      hasher.add(i);
      hashes[node->outputs[i]] = hasher.get();
    }
  }
  return hashes;
}

std::uint64_t Graph::hash() const {
  const std::vector<std::uint64_t> hashes = value_hashes();
  Hasher hasher("graph");
  hasher.add(inputs_.size());
  for (ValueId id : inputs_) hasher.add(hashes[id]);
  hasher.add(outputs_.size());
  for (const GraphOutput& output : outputs_) {
    hasher.add(output.name);
    hasher.add(output.type, output.shape_known);
    hasher.add(hashes[output.value]);
  }
  return hasher.get();
}

}  // namespace rewright::graph
