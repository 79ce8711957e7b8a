// Contrib operators: those of ONNX Runtime's domain com.microsoft, and those of ai.onnx.ml that are arithmetic, each as a graph
// of the registry's operators.
//
// The importer puts that graph in the node's place, as it does with the body of an ONNX function: a node whose graph no rule
// changed is written back with its bytes. So rules, proofs, gradients and every backend know the operator by its graph.
//
//   std::optional<std::vector<OnnxValue>> quick_gelu(ContribNode& n, std::string& reason) {
//     return n.results({n.b.add("Swish", {n.input(0)}, {{"alpha", Real(n.source.real("alpha", 1.702f))}})});
//   }
//
// Meanings and defaults are those of the schemas that ONNX Runtime documents (docs/ContribOperators.md of its repository), and
// tests/contrib_operators.py compares with what it computes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/formulas.h"
#include "operators/source_builder.h"

namespace rewright::operators {

inline constexpr std::string_view kContribDomain = "com.microsoft";

// A contrib node being imported.
class ContribNode {
 public:
  using Results = std::optional<std::vector<OnnxValue>>;

  explicit ContribNode(OnnxSource& node) : source(node), b(node) {}

  bool has(std::size_t i) const { return source.input(i) != kAbsent; }
  // Throws Error(kBadInput) if the input is absent.
  ValueId input(std::size_t i) const;
  // kNoGradient if it is absent.
  ValueId optional_input(std::size_t i) const { return b.input(i); }
  // A copy: adding nodes moves what references to the shapes of values point to.
  Indices shape(std::size_t i) const { return b.shape_of(input(i)); }
  DataType type(std::size_t i) const { return b.type_of(input(i)).type; }
  // Throw Error(kBadInput) if the input has another rank or type, if the sizes certainly differ, and if `holds` is false.
  void require_rank(std::size_t i, std::size_t rank) const;
  static void require_equal(const Index& size, const Index& other, const std::string& what);
  static void require(bool holds, const std::string& what);
  // The elements of an input of integers that must be known when the model is read; nullopt, with the reason, if they are not.
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i, const std::string& what, std::string& reason) const;
  // A required integer attribute that must be positive.
  std::int64_t positive(std::string_view attribute) const;

  // `length` entries of an axis, from `first` on.
  ValueId entries(ValueId v, std::size_t axis, const Index& first, const Index& length);
  ValueId joined(std::vector<ValueId> parts, std::size_t axis);
  // x + y; x if y is kNoGradient.
  ValueId plus(ValueId x, ValueId y) { return y == kNoGradient ? x : b.add("Add", {x, y}); }
  ValueId swapped(ValueId v, std::size_t axis, std::size_t other);  // these two axes exchanged
  ValueId scaled(ValueId v, double factor) { return Formulas(b, b.type_of(v).type).scaled(v, factor); }
  ValueId range(const Index& count);  // 0, 1, ... as int64
  // [N, spatial..., C] to [N, C, spatial...], and back.
  ValueId channels_first(ValueId v);
  ValueId channels_last(ValueId v);
  // The activation of fused operators (Relu, LeakyRelu, Clip, ...), with up to two parameters; nullopt if it is unknown.
  std::optional<ValueId> activation(const std::string& name, ValueId v, const std::vector<double>& parameters);

  static Results results(const std::vector<ValueId>& values) { return SourceBuilder::results(values); }

  OnnxSource& source;
  SourceBuilder b;
};

using ContribGraph = std::function<ContribNode::Results(ContribNode& node, std::string& reason)>;

class ContribOperators {
 public:
  void add(std::string type, ContribGraph graph, std::string domain = std::string(kContribDomain)) {
    table_[{std::move(domain), std::move(type)}] = std::move(graph);
  }
  const ContribGraph* find(std::string_view domain, std::string_view type) const {
    const auto at = table_.find({std::string(domain), std::string(type)});
    return at == table_.end() ? nullptr : &at->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, ContribGraph> table_;
};

// Null if the library has no graph for such nodes.
const ContribGraph* find_contrib(std::string_view domain, std::string_view type);

// Each adds the operators of the file with its name.
void register_contrib_activation(ContribOperators& c);
void register_contrib_attention(ContribOperators& c);
void register_contrib_blocked_layout(ContribOperators& c);
void register_contrib_experts(ContribOperators& c);
void register_contrib_gates(ContribOperators& c);
void register_contrib_grouped_attention(ContribOperators& c);
void register_contrib_learned(ContribOperators& c);
void register_contrib_linear_attention(ContribOperators& c);
void register_contrib_normalization(ContribOperators& c);
void register_contrib_packed_weights(ContribOperators& c);
void register_contrib_product(ContribOperators& c);
void register_contrib_quantized(ContribOperators& c);
void register_contrib_selection(ContribOperators& c);
void register_contrib_trees(ContribOperators& c);

}  // namespace rewright::operators
