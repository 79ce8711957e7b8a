#include "equivalence/constant_terms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "equivalence/term_writer.h"
#include "rules/io.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kMostJoined = 16;  // constants in one
constexpr std::size_t kMostKept = 4000;
constexpr std::int64_t kComparedOfPart = 8;  // elements of a part

// A constant of the first model with its axes in another order. Its elements are read where they stand.
struct Piece {
  ValueId leaf;  // in the joint table
  const Tensor* tensor;
  Sizes sizes, strides;  // after the permutation
  std::vector<std::size_t> permutation;
  bool is_moved() const { return !std::is_sorted(permutation.begin(), permutation.end()); }
  // The place in the tensor of a row-major place in the permuted one.
  std::int64_t place(std::int64_t at) const {
    std::int64_t result = 0;
    for (std::size_t k = sizes.size(); k-- > 0; at /= sizes[k]) result += at % sizes[k] * strides[k];
    return result;
  }
};

class TermOfConstants : public TermWriter {
 public:
  TermOfConstants() : TermWriter(Step::Kind::kTerm, "of constants") {}

  PatternValue leaf(ValueId id, DataType type, const Sizes& sizes) { return TermWriter::leaf(id, {type, to_indices(sizes)}); }
  PatternValue leaf(const Piece& piece) {
    const PatternValue value = leaf(piece.leaf, piece.tensor->type(), piece.tensor->sizes());
    if (!piece.is_moved()) return value;
    return node("Transpose", {{"perm", Indices(piece.permutation.begin(), piece.permutation.end())}}, {value});
  }
};

bool holds(const Joint& joint, const Step& step, double tolerance) {
  try {
    return check_term(joint, step, tolerance).explained;
  } catch (const proof::Refusal&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

// All orders of the axes for few of them, else the given one.
std::vector<std::vector<std::size_t>> permutations(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::size_t>> all{order};
  if (rank < 2 || rank > 4) return all;
  while (std::next_permutation(order.begin(), order.end())) all.push_back(order);
  return all;
}

class Mover {
 public:
  explicit Mover(const Joint& joint) : joint_(joint) {
    const Graph& graph = joint.graph();
    add_computed_numbers();
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Tensor& tensor = graph.value(id).constant;
      if (!joint.is_of_first(id) || !tensor || !is_real(tensor.type()) || tensor.size() == 0 || joint.defined_by(id) != id)
        continue;
      if (tensor.size() == 1 && tensor.sizes().size() <= 1 && std::isfinite(element_of(tensor, 0)) &&
          element_of(tensor, 0) != 0)
        numbers_.push_back({element_of(tensor, 0), id, tensor.sizes()});
      for (std::vector<std::size_t>& permutation : permutations(tensor.sizes().size())) {
        Piece piece{id, &tensor, {}, {}, {}};
        Sizes strides(tensor.sizes().size(), 1);
        for (std::size_t k = strides.size(); k-- > 1;) strides[k - 1] = strides[k] * tensor.sizes()[k];
        for (const std::size_t axis : permutation) {
          piece.sizes.push_back(tensor.sizes()[axis]);
          piece.strides.push_back(strides[axis]);
        }
        piece.permutation = std::move(permutation);
        pieces_.push_back(std::move(piece));
      }
    }
  }

  std::optional<Step> explain(ValueId constant, double tolerance) const {
    const Tensor& tensor = joint_.graph().value(constant).constant;
    if (!is_real(tensor.type()) || tensor.size() == 0) return std::nullopt;
    for (const Piece& piece : pieces_) {
      if (piece.tensor->type() != tensor.type() || piece.tensor->size() != tensor.size()) continue;
      if (!stands_at(piece, tensor, piece.sizes, 0, 0)) continue;
      TermOfConstants writer;
      PatternValue value = writer.leaf(piece);
      if (piece.sizes != tensor.sizes()) value = writer.node("Reshape", {{"shape", to_indices(tensor.sizes())}}, {value});
      const Step step = writer.finish(value, constant);
      if (holds(joint_, step, tolerance)) return step;
    }
    if (const auto step = padded(constant, tensor, tolerance)) return step;
    if (const auto step = scaled(constant, tensor, tolerance)) return step;
    for (std::size_t axis = 0; axis < tensor.sizes().size(); ++axis)
      if (const auto step = joined(constant, tensor, axis, tolerance)) return step;
    return std::nullopt;
  }

 private:
  void add_computed_numbers() {
    const Graph& graph = joint_.graph();
    const std::vector<bool> constant = graph.constant_values();
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (!joint_.is_of_first(id) || !constant[id] || value.constant || !is_real(value.type.type) ||
          joint_.defined_by(id) != id || !(value.type.shape == Indices{} || value.type.shape == Indices{1}))
        continue;
      try {
        const double number = evaluate_constant(graph, id).reals().at(0);
        if (std::isfinite(number) && number != 0) numbers_.push_back({number, id, values(value.type.shape)});
      } catch (const Error&) {  // an operator that has no elements
      }
    }
  }

  // Is the piece what stands in the tensor, seen with these sizes, from this row of the axis on?
  static bool stands_at(const Piece& piece, const Tensor& tensor, const Sizes& sizes, std::size_t axis, std::int64_t row) {
    std::int64_t inner = 1;
    for (std::size_t k = axis + 1; k < sizes.size(); ++k) inner *= sizes[k];
    const std::int64_t rows = sizes.empty() ? 1 : piece.sizes[axis], all_rows = sizes.empty() ? 1 : sizes[axis];
    const std::int64_t count = piece.tensor->size();
    const auto same = [&](std::int64_t at) {
      const std::int64_t outer = at / (rows * inner), rest = at % (rows * inner);
      return near(element_of(tensor, (outer * all_rows + row) * inner + rest), element_of(*piece.tensor, piece.place(at)), 0);
    };
    // A few elements first: most pieces are another.
    for (std::int64_t k = 0; k < std::min<std::int64_t>(count, 8); ++k)
      if (!same(k * count / 8)) return false;
    for (std::int64_t at = 0; at < count; ++at)
      if (!same(at)) return false;
    return true;
  }

  // A piece times a number that the first model has as a constant, or divided by it.
  std::optional<Step> scaled(ValueId constant, const Tensor& tensor, double tolerance) const {
    for (const Piece& piece : pieces_) {
      if (piece.tensor->type() != tensor.type() || piece.tensor->size() != tensor.size()) continue;
      const std::optional<double> ratio = ratio_to(piece, tensor);
      if (!ratio || *ratio == 1) continue;
      for (const auto& [number, leaf, sizes] : numbers_) {
        const bool divides = near(*ratio * number, 1, 0);
        if (!divides && !near(*ratio, number, 0)) continue;
        if (joint_.graph().value(leaf).type.type != tensor.type()) continue;
        TermOfConstants writer;
        const PatternValue moved = writer.leaf(piece);
        PatternValue value = writer.node(divides ? "Div" : "Mul", {}, {moved, writer.leaf(leaf, tensor.type(), sizes)});
        if (piece.sizes != tensor.sizes()) value = writer.node("Reshape", {{"shape", to_indices(tensor.sizes())}}, {value});
        const Step step = writer.finish(value, constant);
        if (holds(joint_, step, tolerance)) return step;
      }
    }
    return std::nullopt;
  }

  // The number that all elements of the piece were multiplied with; nullopt if there is none, or all are 0.
  static std::optional<double> ratio_to(const Piece& piece, const Tensor& tensor) {
    const std::int64_t count = tensor.size();
    std::int64_t largest = 0;
    const auto of_piece = [&](std::int64_t at) { return element_of(*piece.tensor, piece.place(at)); };
    for (std::int64_t k = 0; k < std::min<std::int64_t>(count, kComparedOfPart); ++k)
      if (std::abs(of_piece(k * count / kComparedOfPart % count)) > std::abs(of_piece(largest)))
        largest = k * count / kComparedOfPart % count;
    if (of_piece(largest) == 0) return std::nullopt;
    const double ratio = element_of(tensor, largest) / of_piece(largest);
    if (ratio == 0 || !std::isfinite(ratio)) return std::nullopt;
    for (const bool few : {true, false})
      for (std::int64_t k = 0; k < (few ? std::min(count, kComparedOfPart) : count); ++k) {
        const std::int64_t at = few ? k * count / kComparedOfPart % count : k;
        if (!near(element_of(tensor, at), ratio * of_piece(at), 0)) return std::nullopt;
      }
    return ratio;
  }

  // A piece with zeros behind it.
  std::optional<Step> padded(ValueId constant, const Tensor& tensor, double tolerance) const {
    const Sizes& sizes = tensor.sizes();
    for (const Piece& piece : pieces_) {
      if (piece.tensor->type() != tensor.type() || piece.sizes.size() != sizes.size() || piece.sizes == sizes) continue;
      Indices behind;
      bool fits = true;
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        fits = fits && piece.sizes[k] <= sizes[k];
        behind.emplace_back(sizes[k] - piece.sizes[k]);
      }
      if (!fits || !is_padded(piece, tensor)) continue;
      TermOfConstants writer;
      const Step step = writer.finish(writer.node("Pad", {{"pads_end", behind}}, {writer.leaf(piece)}), constant);
      if (holds(joint_, step, tolerance)) return step;
    }
    return std::nullopt;
  }

  static bool is_padded(const Piece& piece, const Tensor& tensor) {
    const Sizes& sizes = tensor.sizes();
    for (std::int64_t at = 0; at < tensor.size(); ++at) {
      std::int64_t rest = at, place = 0;
      bool inside = true;
      for (std::size_t k = sizes.size(); k-- > 0; rest /= sizes[k]) {
        const std::int64_t position = rest % sizes[k];
        inside = inside && position < piece.sizes[k];
        place += position * piece.strides[k];
      }
      if (!near(element_of(tensor, at), inside ? element_of(*piece.tensor, place) : 0, 0)) return false;
    }
    return true;
  }

  std::optional<Step> joined(ValueId constant, const Tensor& tensor, std::size_t axis, double tolerance) const {
    const Sizes& sizes = tensor.sizes();
    std::vector<const Piece*> found;
    std::int64_t row = 0;
    while (row < sizes[axis] && found.size() < kMostJoined) {
      const auto next = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
        if (piece.tensor->type() != tensor.type() || piece.sizes.size() != sizes.size()) return false;
        for (std::size_t k = 0; k < piece.sizes.size(); ++k)
          if (k != axis && piece.sizes[k] != sizes[k]) return false;
        return row + piece.sizes[axis] <= sizes[axis] && stands_at(piece, tensor, sizes, axis, row);
      });
      if (next == pieces_.end()) return std::nullopt;
      found.push_back(&*next);
      row += next->sizes[axis];
    }
    if (row < sizes[axis] || found.size() < 2) return std::nullopt;
    TermOfConstants writer;
    std::vector<PatternValue> values;
    for (const Piece* piece : found) values.push_back(writer.leaf(*piece));
    const Step step = writer.finish(writer.node("Concat", {{"axis", Index(axis)}}, std::move(values)), constant);
    return holds(joint_, step, tolerance) ? std::optional(step) : std::nullopt;
  }

  const Joint& joint_;
  std::vector<Piece> pieces_;
  // A constant of one element, or what is computed from constants.
  struct Number {
    double value;
    ValueId id;
    Sizes sizes;
  };
  std::vector<Number> numbers_;
};

void collect_numbers(const Element& e, std::set<double>& found, std::set<const ElementNode*>& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  if (e->kind == ElementNode::Kind::kConstant && e->scalar == Scalar::kReal && e->real.symbol.empty() && e->real.value != 0 &&
      std::isfinite(e->real.value))
    found.insert(e->real.value);
  for (const Element& argument : e->arguments) collect_numbers(argument, found, seen);
}

// Numbers that a constant may be a rounding of: those of definitions, their reciprocals, and quotients of two of one
// definition.
class DefinedNumbers {
 public:
  explicit DefinedNumbers(const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (node->op->is_fill()) continue;
      std::set<double> own;
      std::set<const ElementNode*> seen;
      const Definition definition = node->op->define(node->attributes, Inputs::of(graph.operand_types(*node)));
      for (const Output& output : definition.outputs()) collect_numbers(output.element, own, seen);
      for (const double number : own) {
        numbers_.insert(number);
        numbers_.insert(1 / number);
        for (const double divisor : own) quotients_.emplace(number, divisor);
      }
    }
  }

  const std::set<double>& numbers() const { return numbers_; }

  // The terms of a type that are near to a number, and not that number itself. Those of fewer nodes stand first.
  std::vector<Step> near_to(double value, const Tensor& tensor, ValueId constant) const {
    std::vector<Step> steps;
    const auto add = [&](TermOfConstants& writer, PatternValue term) { steps.push_back(writer.finish(term, constant)); };
    const auto fill = [&](TermOfConstants& writer, double number) {
      return writer.node("Fill", {{"value", Real(number)}, {"shape", to_indices(tensor.sizes())}, {"type", tensor.type()}}, {});
    };
    for (const double number : numbers_) {
      if (number == value || !near(number, value, 0)) continue;
      TermOfConstants writer;
      add(writer, fill(writer, number));
    }
    for (const auto& [number, divisor] : quotients_) {
      if (number / divisor == value || !near(number / divisor, value, 0)) continue;
      TermOfConstants writer;
      const PatternValue dividend = fill(writer, number);
      add(writer, writer.node("Div", {}, {dividend, fill(writer, divisor)}));
    }
    return steps;
  }

 private:
  std::set<double> numbers_;
  std::set<std::pair<double, double>> quotients_;
};

}  // namespace

std::vector<Step> computed_constants(const Joint& joint, double tolerance, const std::function<bool()>& ended) {
  const Graph& graph = joint.graph();
  const std::vector<bool> constant = graph.constant_values();
  std::multimap<std::string, ValueId> by_type;
  std::map<ValueId, Tensor> evaluated;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (joint.is_of_first(id) && constant[id] && joint.defined_by(id) == id)
      by_type.emplace(to_string(graph.value(id).type), id);
  std::vector<Step> steps;
  for (ValueId id = 0; id < graph.value_count() && !ended(); ++id) {
    if (!joint.is_of_second(id) || !joint.is_constant(id) || joint.is_known(id) || joint.defined_by(id) != id) continue;
    const auto [from, to] = by_type.equal_range(to_string(graph.value(id).type));
    for (auto at = from; at != to; ++at) {
      Step step;
      step.kind = Step::Kind::kTerm;
      step.equation = {kNoValue, id, {at->second}};
      try {
        auto known = evaluated.find(at->second);
        if (known == evaluated.end()) known = evaluated.emplace(at->second, evaluate_constant(graph, at->second)).first;
        if (!check_rounding(graph, at->second, known->second, graph.value(id).constant, tolerance).explained) continue;
        steps.push_back(std::move(step));
        break;
      } catch (const Error&) {
        evaluated.emplace(at->second, Tensor());
      }
    }
  }
  return steps;
}

std::vector<Step> moved_constants(const Joint& joint, double tolerance) {
  std::vector<Step> steps;
  std::optional<Mover> mover;
  for (ValueId id = 0; id < joint.graph().value_count(); ++id) {
    if (!joint.is_of_second(id) || !joint.is_constant(id) || joint.is_known(id) || joint.defined_by(id) != id ||
        is_one_number(joint.graph().value(id).constant))
      continue;
    if (!mover) mover.emplace(joint);
    if (auto step = mover->explain(id, tolerance)) steps.push_back(std::move(*step));
  }
  return steps;
}

Parts::Parts(const Joint& joint, std::function<ValueId(const Step&)> add_value)
    : joint_(joint), add_value_(std::move(add_value)) {}

void Parts::add(const Step& value) {
  if (!value.term || parts_.size() >= kMostKept) return;
  std::string key = to_algebra(*value.term);
  for (const ValueId leaf : value.equation.leaves) key += " " + std::to_string(leaf);
  if (!texts_.insert(std::move(key)).second) return;
  try {
    parts_.push_back({value, std::make_unique<TermElements>(joint_, value), kNoValue});
  } catch (const proof::Refusal&) {  // it cannot be computed
  } catch (const Error&) {
  }
}

std::optional<Step> Parts::explain(ValueId constant, double tolerance) {
  const Tensor& tensor = joint_.graph().value(constant).constant;
  if (!is_real(tensor.type()) || tensor.size() == 0) return std::nullopt;
  const double largest = largest_element(tensor);
  if (auto step = whole(constant, largest, tolerance)) return step;
  if (auto step = padded(constant, largest, tolerance)) return step;
  for (std::size_t axis = 0; axis < tensor.sizes().size(); ++axis)
    if (auto step = joined(constant, axis, largest, tolerance)) return step;
  return std::nullopt;
}

ValueId Parts::value_of(const Found& piece) {
  if (!piece.part) return piece.constant;
  if (piece.part->value == kNoValue) piece.part->value = add_value_(piece.part->step);
  return piece.part->value;
}

std::optional<Step> Parts::whole(ValueId constant, double largest, double tolerance) {
  const Tensor& tensor = joint_.graph().value(constant).constant;
  for (Part& part : parts_) {
    if (!part.elements->may_be(tensor, largest)) continue;
    TermOfConstants writer;
    const Found piece{&part, kNoValue, tensor.sizes()};
    Step step = writer.finish(writer.leaf(value_of(piece), tensor.type(), tensor.sizes()), constant);
    if (holds(joint_, step, tolerance)) return step;
  }
  return std::nullopt;
}

// A part with zeros behind it: channels that are filled up to a block.
std::optional<Step> Parts::padded(ValueId constant, double largest, double tolerance) {
  const Tensor& tensor = joint_.graph().value(constant).constant;
  const Sizes& sizes = tensor.sizes();
  // The smallest sizes that have all elements which are not 0.
  Sizes inside(sizes.size(), 1);
  for (std::int64_t at = 0; at < tensor.size(); ++at) {
    if (element_of(tensor, at) == 0) continue;
    std::int64_t rest = at;
    for (std::size_t k = sizes.size(); k-- > 0; rest /= sizes[k]) inside[k] = std::max(inside[k], rest % sizes[k] + 1);
  }
  for (Part& part : parts_) {
    const Sizes& own = part.elements->sizes();
    if (part.elements->type() != tensor.type() || own.size() != sizes.size() || own == sizes) continue;
    Indices behind;
    bool fits = true;
    std::int64_t count = 1;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      fits = fits && inside[k] <= own[k] && own[k] <= sizes[k];
      behind.emplace_back(sizes[k] - own[k]);
      count *= own[k];
    }
    for (std::int64_t n = 0; fits && n < std::min(count, kComparedOfPart); ++n) {
      const std::int64_t at = n * count / std::min(count, kComparedOfPart);
      std::int64_t rest = at, place = 0, stride = 1;
      for (std::size_t k = sizes.size(); k-- > 0; rest /= own[k], stride *= sizes[k]) place += rest % own[k] * stride;
      const std::optional<double> e = part.elements->element(at);
      fits = e && near(*e, element_of(tensor, place), largest);
    }
    if (!fits) continue;
    TermOfConstants writer;
    const PatternValue leaf = writer.leaf(value_of({&part, kNoValue, own}), tensor.type(), own);
    Step step = writer.finish(writer.node("Pad", {{"pads_end", behind}}, {leaf}), constant);
    if (holds(joint_, step, tolerance)) return step;
  }
  return std::nullopt;
}

// The parts whose sizes match the tensor's on all axes but this one, so that they may be pieces of it.
std::vector<Parts::Found> Parts::pieces_of(const Tensor& tensor, std::size_t axis) {
  const Sizes& sizes = tensor.sizes();
  std::vector<Found> pieces;
  const auto offer = [&](Part* part, ValueId constant, DataType type, const Sizes& of) {
    if (type != tensor.type() || of.size() != sizes.size() || of[axis] >= sizes[axis]) return;
    for (std::size_t k = 0; k < sizes.size(); ++k)
      if (k != axis && of[k] != sizes[k]) return;
    pieces.push_back({part, constant, of});
  };
  for (Part& part : parts_) offer(&part, kNoValue, part.elements->type(), part.elements->sizes());
  for (ValueId id = 0; id < joint_.graph().value_count() && joint_.is_of_first(id); ++id)
    if (const Tensor& own = joint_.graph().value(id).constant; own && own.size() > 0 && joint_.defined_by(id) == id)
      offer(nullptr, id, own.type(), own.sizes());
  return pieces;
}

// Is the piece what stands in the tensor from this row of the axis on? A few elements are compared.
bool Parts::stands_at(const Found& piece, const Tensor& tensor, std::size_t axis, std::int64_t row, double largest) const {
  std::int64_t inner = 1, count = 1;
  for (std::size_t k = axis + 1; k < piece.sizes.size(); ++k) inner *= piece.sizes[k];
  for (const std::int64_t size : piece.sizes) count *= size;
  const std::int64_t rows = piece.sizes[axis], all_rows = tensor.sizes()[axis];
  const std::int64_t compared = std::min(count, kComparedOfPart);
  for (std::int64_t k = 0; k < compared; ++k) {
    const std::int64_t at = std::min(count - 1, k * count / compared + (count > compared ? k : 0));
    const std::int64_t outer = at / (rows * inner), rest = at % (rows * inner);
    const std::optional<double> e =
        piece.part ? piece.part->elements->element(at) : element_of(joint_.graph().value(piece.constant).constant, at);
    if (!e || !near(*e, element_of(tensor, (outer * all_rows + row) * inner + rest), largest)) return false;
  }
  return true;
}

std::optional<Step> Parts::joined(ValueId constant, std::size_t axis, double largest, double tolerance) {
  const Tensor& tensor = joint_.graph().value(constant).constant;
  std::vector<Found> pieces = pieces_of(tensor, axis), found;
  std::int64_t row = 0;
  while (row < tensor.sizes()[axis] && found.size() < kMostJoined) {
    const auto next = std::find_if(pieces.begin(), pieces.end(), [&](const Found& piece) {
      return row + piece.sizes[axis] <= tensor.sizes()[axis] && stands_at(piece, tensor, axis, row, largest);
    });
    if (next == pieces.end()) return std::nullopt;
    found.push_back(*next);
    row += next->sizes[axis];
  }
  if (row < tensor.sizes()[axis]) return std::nullopt;
  TermOfConstants writer;
  std::vector<PatternValue> values;
  for (const Found& piece : found) values.push_back(writer.leaf(value_of(piece), tensor.type(), piece.sizes));
  Step step = writer.finish(writer.node("Concat", {{"axis", Index(axis)}}, std::move(values)), constant);
  return holds(joint_, step, tolerance) ? std::optional(step) : std::nullopt;
}

namespace {

// A number that the first model has in a statement, or computes there from constants.
struct KnownNumber {
  double value;
  ValueId id;  // in the joint table
  TensorType type;
};

std::vector<KnownNumber> numbers_of_first(const Joint& joint, const Statement& statement) {
  constexpr std::size_t kMostNumbers = 8;
  const std::vector<bool> constant = joint.graph().constant_values();
  std::vector<KnownNumber> found;
  std::set<ValueId> seen;
  for (const ValueId of_class : statement.classes) {
    if (of_class == kNoValue || found.size() >= kMostNumbers || !joint.is_known(of_class) || !seen.insert(of_class).second)
      continue;
    const ValueId id = joint.defined_by(of_class);
    const TensorType& type = joint.graph().value(id).type;
    if (!constant[id] || !is_real(type.type) || !(type.shape == Indices{} || type.shape == Indices{1})) continue;
    try {
      const double value = evaluate_constant(joint.graph(), id).reals().at(0);
      if (std::isfinite(value) && value != 0) found.push_back({value, id, type});
    } catch (const Error&) {  // an operator that has no elements
    }
  }
  return found;
}

// A constant of one element that is the product or the quotient of two of the numbers.
std::optional<Step> of_two_numbers(const Joint& joint, const std::vector<KnownNumber>& numbers, ValueId constant,
                                   double tolerance) {
  const Tensor& tensor = joint.graph().value(constant).constant;
  if (tensor.size() != 1) return std::nullopt;
  const double value = tensor.reals()[0];
  for (const KnownNumber& x : numbers)
    for (const KnownNumber& y : numbers)
      for (const char* const op : {"Mul", "Div"}) {
        if (x.type.type != tensor.type() || y.type.type != tensor.type()) continue;
        if (!near(*op == 'M' ? x.value * y.value : x.value / y.value, value, 0)) continue;
        TermOfConstants writer;
        const PatternValue left = writer.TermWriter::leaf(x.id, x.type), right = writer.TermWriter::leaf(y.id, y.type);
        PatternValue term = writer.node(op, {}, {left, right});
        if (x.type.rank() != tensor.sizes().size() || y.type.rank() > tensor.sizes().size())
          term = writer.node("Reshape", {{"shape", to_indices(tensor.sizes())}}, {term});
        Step step = writer.finish(term, constant);
        if (holds(joint, step, tolerance)) return step;
      }
  return std::nullopt;
}

}  // namespace

std::vector<Step> known_numbers(const Joint& joint, const Statement& statement, double tolerance) {
  const DefinedNumbers defined(statement.graph);
  const std::set<double>& numbers = defined.numbers();
  std::vector<Step> steps;
  for (std::size_t n = 0; n < statement.graph.nodes().size(); ++n) {
    const Node& node = *statement.graph.nodes()[n];
    for (std::size_t f = 0; f < node.attributes.size() && !node.op->is_fill(); ++f) {
      const Real* real = std::get_if<Real>(&node.attributes[f]);
      if (!real || static_cast<double>(static_cast<float>(real->value)) != real->value) continue;
      const auto number = std::find_if(numbers.begin(), numbers.end(), [&](double v) {
        return v != real->value && std::abs(v - real->value) <= tolerance * std::abs(v);
      });
      if (number == numbers.end()) continue;
      Step step;
      step.kind = Step::Kind::kAttribute;
      step.position = statement.positions.at(n), step.field = f, step.number = *number;
      steps.push_back(std::move(step));
    }
  }
  std::set<ValueId> done;
  std::optional<std::vector<KnownNumber>> of_first;
  for (ValueId id = 0; id < statement.graph.value_count(); ++id) {
    if (!statement.graph.is_constant(id)) continue;
    const ValueId constant = joint.defined_by(statement.classes.at(id));
    const Tensor& tensor = joint.graph().value(constant).constant;
    if (!is_real(tensor.type()) || !is_one_number(tensor) || joint.is_explained(constant) || !done.insert(constant).second)
      continue;
    const std::vector<Step> terms = defined.near_to(tensor.reals()[0], tensor, constant);
    const auto held = std::find_if(terms.begin(), terms.end(), [&](const Step& step) { return holds(joint, step, tolerance); });
    if (held != terms.end()) {
      steps.push_back(*held);
    } else if (!joint.is_known(constant)) {
      if (!of_first) of_first = numbers_of_first(joint, statement);
      if (auto step = of_two_numbers(joint, *of_first, constant, tolerance)) steps.push_back(std::move(*step));
    }
  }
  return steps;
}

}  // namespace rewright::equivalence
