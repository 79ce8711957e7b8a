#include "rules/taso/taso.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "rules/taso/side.h"

namespace rewright::rules {

namespace taso {

namespace {

// Marks the operators that a convolution's kernel is computed by.
std::vector<bool> kernel_side(const Side& side) {
  std::vector<bool> result(side.size());
  for (std::size_t i = side.size(); i-- > 0;)
    for (std::size_t k = 0; k < side[i].inputs.size(); ++k) {
      const Reference& r = side[i].inputs[k];
      if (!r.is_input() && (result[i] || (side[i].type == Type::kConv && k == 1)))
        result[static_cast<std::size_t>(r.op)] = true;
    }
  return result;
}

// Does the side concatenate or split channels, of tensors or of kernels? That is incompatible with groups.
bool moves_channels(const Side& side) {
  const std::vector<bool> kernels = kernel_side(side);
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (side[i].type != Type::kConcat && side[i].type != Type::kSplit) continue;
    const std::int32_t axis = side[i].get(Key::kAxis, 0, INT32_MAX);
    if (axis == 1 || (axis == 0 && kernels[i])) return true;
  }
  return false;
}

// Does a convolution's result feed another convolution?
bool is_chained(const Side& side) {
  std::vector<bool> after(side.size());
  for (std::size_t i = 0; i < side.size(); ++i)
    for (std::size_t k = 0; k < side[i].inputs.size(); ++k) {
      const Reference& r = side[i].inputs[k];
      if (r.is_input()) continue;
      const auto from = static_cast<std::size_t>(r.op);
      if (!after[from] && side[from].type != Type::kConv) continue;
      after[i] = true;
      if (side[i].type == Type::kConv && k == 0) return true;
    }
  return false;
}

bool any(const RuleText& rule, const std::function<bool(const Operation&)>& test) {
  return std::any_of(rule.source.begin(), rule.source.end(), test) || std::any_of(rule.target.begin(), rule.target.end(), test);
}

// Renames all symbols of a rule in order of appearance.
class Renaming {
 public:
  Renaming(const Sizes& sizes, std::set<std::string> taken) : sizes_(sizes), taken_(std::move(taken)) {}

  Index operator()(const Index& index) {
    return substitute(index, [&](const Atom& a) -> std::optional<Index> {
      if (a.kind != Atom::Kind::kSymbol) return std::nullopt;
      const auto [found, inserted] = names_.try_emplace(a.name);
      if (inserted) {
        const std::string letter = sizes_.letter(a.name);
        found->second = letter;
        for (int n = 2; !taken_.insert(found->second).second; ++n) found->second = letter + std::to_string(n);
      }
      return Index::symbol(found->second);
    });
  }
  void rename(Indices& indices) {
    for (Index& i : indices) i = (*this)(i);
  }
  void rename(Expression& e) {
    if (auto* i = std::get_if<Index>(&e.value)) *i = (*this)(*i);
    if (auto* list = std::get_if<Indices>(&e.value)) rename(*list);
    for (Expression& a : e.arguments) rename(a);
  }
  void rename(Pattern& side) {
    for (PatternNode& node : side.nodes)
      for (Expression& e : node.attributes) rename(e);
  }
  void rename(Rule& rule) {
    for (PatternInput& input : rule.inputs) rename(input.shape.front), rename(input.shape.back);
    rename(rule.source), rename(rule.target);
    for (Condition& c : rule.conditions) c = {(*this)(c.left), c.relation, (*this)(c.right)};
  }

 private:
  const Sizes& sizes_;
  std::set<std::string> taken_;
  std::map<std::string, std::string> names_;
};

void collect(const Index& index, std::set<std::string>& symbols) {
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol) symbols.insert(a.name);
  });
}

void collect(const Pattern& side, std::set<std::string>& symbols) {
  const std::function<void(const Expression&)> expression = [&](const Expression& e) {
    if (const auto* i = std::get_if<Index>(&e.value)) collect(*i, symbols);
    if (const auto* list = std::get_if<Indices>(&e.value))
      for (const Index& i : *list) collect(i, symbols);
    if (e.kind == Expression::Kind::kVariable) symbols.insert(e.name);
    for (const Expression& a : e.arguments) expression(a);
  };
  for (const PatternNode& node : side.nodes)
    for (const Expression& e : node.attributes) expression(e);
}

class Importer {
 public:
  explicit Importer(const RuleText& text) : text_(text), context_(text), source_(context_, false), target_(context_, true) {}

  Rule run(const std::string& name, const std::string& description) {
    context_.one_group = moves_channels(text_.source) || moves_channels(text_.target);
    // The kernels of one convolution are the channels of the next, so they are a multiple of its groups.
    context_.split_kernels = !is_chained(text_.source) && !is_chained(text_.target);
    context_.fixed_kernels = any(text_, [](const Operation& op) { return op.type == Type::kEnlarge && op.inputs.size() == 1; });
    // Without inputs to take the element type from, it is float.
    const bool has_inputs = any(text_, [](const Operation& op) {
      return std::any_of(op.inputs.begin(), op.inputs.end(), [](const Reference& r) { return r.is_input(); });
    });
    context_.element_type = has_inputs ? Expression::variable("T") : Expression::literal(DataType::kFloat);
    source_.build();
    target_.build();
    Rule rule;
    rule.name = name;
    rule.description = description;
    rule.origin = RuleOrigin::kImported;
    assemble(rule);
    if (!all_bound(rule)) {
      // A constant of the target may be as large as the output it replaces.
      for (const auto& [from, to] : text_.outputs) equate_outputs(from, to);
      target_.choose_groups();
      assemble(rule);
      if (!all_bound(rule)) throw Error(ErrorCode::kBadInput, "nothing says how large a constant of the target is");
    }
    std::set<std::string> taken{"T"};
    for (const PatternInput& input : rule.inputs) taken.insert(input.name), taken.insert(input.shape.middle);
    Renaming(context_.sizes, std::move(taken)).rename(rule);
    check_rule(rule);
    return rule;
  }

 private:
  void equate_outputs(const Reference& from, const Reference& to) {
    const TensorShape &a = source_.shape(from), &b = target_.shape(to);
    for (std::size_t i = 0; i < a.sizes.size(); ++i)
      context_.sizes.equate(a.sizes[i], b.sizes[i], false, "the outputs have other shapes");
  }

  void assemble(Rule& rule) const {
    rule.inputs.clear();
    for (std::size_t i = 0; i < context_.shapes.size(); ++i) {
      PatternInput input;
      const TensorShape& shape = context_.shapes[i];
      const Indices sizes = context_.sizes.resolved(shape.sizes);
      const auto middle = shape.open ? sizes.begin() + static_cast<std::ptrdiff_t>(shape.front) : sizes.end();
      input.name = "x" + std::to_string(i + 1);
      input.shape.open = shape.open;
      input.shape.middle = shape.list;
      input.shape.front.assign(sizes.begin(), middle);
      input.shape.back.assign(middle, sizes.end());
      rule.inputs.push_back(std::move(input));
    }
    rule.source = source_.pattern();
    rule.target = target_.pattern();
    rule.conditions = context_.sizes.conditions();
  }

  static bool all_bound(const Rule& rule) {
    std::set<std::string> bound, used;
    for (const PatternInput& input : rule.inputs) {
      for (const Index& i : input.shape.front) collect(i, bound);
      for (const Index& i : input.shape.back) collect(i, bound);
      bound.insert(input.shape.middle);
      bound.insert(input.type.variable);
    }
    collect(rule.source, bound);
    collect(rule.target, used);
    for (const Condition& c : rule.conditions) collect(c.left, used), collect(c.right, used);
    return std::includes(bound.begin(), bound.end(), used.begin(), used.end());
  }

  const RuleText& text_;
  Context context_;
  SideBuilder source_, target_;
};

}  // namespace

}  // namespace taso

TasoImport import_taso(std::string_view bytes, const std::string& file) {
  TasoImport result;
  const std::vector<taso::RuleText> texts = taso::read(bytes, file);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = "taso_" + std::to_string(i);
    try {
      if (!texts[i].error.empty()) throw Error(ErrorCode::kBadInput, texts[i].error);
      result.rules.push_back(taso::Importer(texts[i]).run(name, "rule " + std::to_string(i) + " of a file of TASO's"));
    } catch (const Error& e) {
      result.skipped.push_back({name, e.text()});
    }
  }
  return result;
}

}  // namespace rewright::rules
