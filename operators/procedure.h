// Operators that are executed and never rewritten: what they return is no arithmetic of elements (a sorted set, a string, a
// sequence), has sizes that only the elements tell, or comes from executing a graph. A graph keeps such a node as it is, with
// the types that ONNX infers for it; its execution stands here, once, and reads the node's own attributes.
//
//   void run_nonzero(Call& call) { call.give(...call.tensor(0)...); }
//   void register_selection(Procedures& p) { p.add("NonZero", run_nonzero); }
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

// A graph that is executed again and again.
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
  // Empty for inputs that are absent, or beyond the last.
  virtual const Datum& input(std::size_t i) const = 0;
  // Executes the graph in an attribute on these inputs. What it captures is known to the call.
  virtual std::vector<Datum> body(std::string_view attribute, std::span<const Datum> inputs) = 0;
  virtual std::size_t body_input_count(std::string_view attribute) const = 0;
  // Is an input the same in all executions of the node?
  virtual bool is_constant(std::size_t i) const = 0;
  // What a procedure says by operators: a graph, prepared at its first use on values of these types, to be executed often.
  // Values that are constant belong to the graph, the others are its inputs, in their order. `describe` gets all of them and
  // returns the outputs. `name` tells the node's graphs apart.
  struct Given {
    Tensor tensor;
    bool is_constant = false;
  };
  using Description = std::function<std::vector<ValueId>(GraphBuilder& graph, const std::vector<ValueId>& values)>;
  virtual std::shared_ptr<Executable> graph(const std::string& name, std::span<const Given> values,
                                            const Description& describe) = 0;
  // To be called in loops that may take long: throws where the execution shall end.
  virtual void checkpoint() = 0;

  bool has_input(std::size_t i) const { return !input(i).empty(); }
  // Throws Error(kBadInput) if it is absent or no tensor.
  const Tensor& tensor(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const { return tensor(i).reals(); }
  std::vector<std::int64_t> integers(std::size_t i) const { return tensor(i).integers(); }
  // Of a tensor of one element.
  std::int64_t integer_input(std::size_t i) const;
  double real_input(std::size_t i) const;
  using OnnxAttributes::integers;
  using OnnxAttributes::reals;
  using OnnxAttributes::tensor;

  // The next output.
  void give(Datum datum) { results_.push_back(std::move(datum)); }
  std::vector<Datum> take_results() { return std::move(results_); }

 private:
  std::vector<Datum> results_;
};

// What an input of a body is given, in every execution of it.
struct BodyInput {
  enum class Kind {
    kUnknown,
    kScalar,   // a tensor without axes, of `type`
    kCarried,  // input `input` of the node first, then what output `output` of the body was
    kEntry,    // input `input` of the node at one position of `axis`, without that axis
  };
  Kind kind = Kind::kUnknown;
  DataType type = DataType::kUndefined;
  std::size_t input = 0, output = 0;
  std::int64_t axis = 0;
};

struct Procedure {
  std::function<void(Call&)> run;  // null: it is executed as its graph
  bool is_random = false;          // other implementations give other results, seeds or not
  // Of a node with these attributes, in this opset, with so many inputs; `count` inputs of its body. Null: nothing is known.
  std::function<std::vector<BodyInput>(const OnnxAttributes&, int opset, std::size_t inputs, std::size_t count)> body_inputs =
      {};
  // The same as a graph of operators, which has gradients: builds it, as the import of an operator does (operators/onnx.h).
  std::function<std::optional<std::vector<OnnxValue>>(OnnxSource& source, std::string& reason)> graph = {};
  // Of an operator that ONNX does not know: the types of its outputs, of which there are `outputs`. Inputs and outputs are null
  // where nothing is known; a size that is negative is open.
  struct KnownType {
    DataType type = DataType::kUndefined;
    Sizes sizes;
  };
  using KnownTypes = std::vector<std::optional<KnownType>>;
  std::function<KnownTypes(const OnnxAttributes&, const KnownTypes& inputs, std::size_t outputs)> infer = {};
};

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
  // Of an operator that someone else brings: `procedure` says its types, too.
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

// All of them. Null if the operator is not executed this way.
const Procedure* find_procedure(std::string_view domain, std::string_view type);

}  // namespace rewright::operators
