// Procedures: operators that are executed and never rewritten, because their results are no arithmetic of elements (a sorted
// set, a string, a sequence), have sizes that depend on elements, or come from executing a graph. A graph keeps such a node as
// an opaque node, with the types that ONNX infers; the procedure executes it and reads the ONNX node's attributes.
//
//   void run_count(Call& call) {
//     call.give(Tensor::scalar(DataType::kInt64, static_cast<double>(call.tensor(0).size())));
//   }
//   void register_selection(Procedures& p) { p.add("ElementCount", run_count, "my.domain"); }
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "expressions/datum.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

// A graph prepared for repeated execution.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::vector<Datum> run(std::span<const Datum> inputs) = 0;
};

// One execution of a node: its attributes, inputs, bodies, and results.
class Call : public OnnxAttributes {
 public:
  virtual int opset() const = 0;
  virtual std::size_t output_count() const = 0;
  virtual std::size_t input_count() const = 0;
  // Empty if the input is absent, or `i` is beyond the last.
  virtual const Datum& input(std::size_t i) const = 0;
  // Executes the graph in an attribute (the body of a Loop) on these inputs. The call knows the values that the graph captures.
  virtual std::vector<Datum> body(std::string_view attribute, std::span<const Datum> inputs) = 0;
  virtual std::size_t body_input_count(std::string_view attribute) const = 0;
  // Does the input have the same value in all executions of the node?
  virtual bool is_constant(std::size_t i) const = 0;
  // A graph of operators to be executed often, built at its first use on values of these types. Constant values become part of
  // the graph, the others are its inputs, in their order. `describe` gets all of them, adds nodes and returns the outputs.
  // `name` distinguishes the graphs of one node.
  struct Given {
    Tensor tensor;
    bool is_constant = false;
  };
  using Description = std::function<std::vector<ValueId>(GraphBuilder& graph, const std::vector<ValueId>& values)>;
  virtual std::shared_ptr<Executable> graph(const std::string& name, std::span<const Given> values,
                                            const Description& describe) = 0;
  // A value made of the node's attributes alone: in the first execution, and kept for the others.
  template <class T>
  std::shared_ptr<const T> kept(const std::function<T()>& make) {
    return std::static_pointer_cast<const T>(keep([&] { return std::make_shared<const T>(make()); }));
  }
  // To be called in long loops: throws an Error to end the execution.
  virtual void checkpoint() = 0;

  bool has_input(std::size_t i) const { return !input(i).empty(); }
  // Throws Error(kBadInput) if the input is absent or not a tensor.
  const Tensor& tensor(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const { return tensor(i).reals(); }
  std::vector<std::int64_t> integers(std::size_t i) const { return tensor(i).integers(); }
  // The element of a tensor that has just one; throw Error(kBadInput) for others.
  std::int64_t integer_input(std::size_t i) const;
  double real_input(std::size_t i) const;
  using OnnxAttributes::integers;
  using OnnxAttributes::reals;
  using OnnxAttributes::tensor;

  // Sets the node's next output.
  void give(Datum datum) { results_.push_back(std::move(datum)); }
  std::vector<Datum> take_results() { return std::move(results_); }

 private:
  virtual std::shared_ptr<const void> keep(const std::function<std::shared_ptr<const void>()>& make) = 0;

  std::vector<Datum> results_;
};

// The source of an input of a body, the same in every execution of the body.
struct BodyInput {
  enum class Kind {
    kUnknown,
    kScalar,   // a tensor without axes, of `type`
    kCarried,  // first input `input` of the node, then the body's previous output `output`
    kEntry,    // input `input` of the node at one position of `axis`, without that axis
  };
  Kind kind = Kind::kUnknown;
  DataType type = DataType::kUndefined;
  std::size_t input = 0, output = 0;
  std::int64_t axis = 0;
};

struct Procedure {
  std::function<void(Call&)> run;  // null: its graph is executed
  bool is_random = false;          // other implementations give other results, even with a given seed
  // The sources of the `count` inputs of a node's body, for a node with these attributes and `inputs` inputs in this opset.
  // Null: not known.
  std::function<std::vector<BodyInput>(const OnnxAttributes&, int opset, std::size_t inputs, std::size_t count)> body_inputs =
      {};
  // Builds the node as a graph of operators, which has gradients, as OnnxMapping::import does. Null: there is none.
  std::function<std::optional<std::vector<OnnxValue>>(OnnxSource& source, std::string& reason)> graph = {};
  // For an operator that ONNX does not know: the types of its `outputs` outputs. An unknown type is nullopt, an unknown size
  // negative. Null: not known.
  struct KnownType {
    DataType type = DataType::kUndefined;
    Sizes sizes;
  };
  using KnownTypes = std::vector<std::optional<KnownType>>;
  std::function<KnownTypes(const OnnxAttributes&, const KnownTypes& inputs, std::size_t outputs)> infer = {};
};

// A table of procedures by domain and type.
class Procedures {
 public:
  void add(std::string type, std::function<void(Call&)> run, std::string domain = {}) {
    table_[{std::move(domain), std::move(type)}].run = std::move(run);
  }
  void add_graph(std::string type, decltype(Procedure::graph) graph) { table_[{{}, std::move(type)}].graph = std::move(graph); }
  void add_control(std::string type, Procedure procedure) { table_[{{}, std::move(type)}] = std::move(procedure); }
  void add_random(std::string type, std::function<void(Call&)> run) {
    table_[{{}, std::move(type)}] = {std::move(run), true, {}, {}, {}};
  }
  // For an operator of a caller of the library: `procedure` also infers its types.
  void add_foreign(std::string domain, std::string type, Procedure procedure) {
    table_[{std::move(domain), std::move(type)}] = std::move(procedure);
  }
  const Procedure* find(std::string_view domain, std::string_view type) const {
    const auto at = table_.find({std::string(domain), std::string(type)});
    return at == table_.end() ? nullptr : &at->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, Procedure> table_;
};

// The library's procedure for an ONNX operator; null if there is none.
const Procedure* find_procedure(std::string_view domain, std::string_view type);

}  // namespace rewright::operators
