// Sub-expressions that become tensors of their own (stages), over the axes that they depend on.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

// Calls `visit` for the integer elements that the node reads its positions from.
void for_each_looked_up(const ElementNode& node, const std::function<void(const Element&)>& visit);

// The sub-expressions of an expression, numbered so that arguments come before their users. Elements that positions are read
// from count as arguments. The expression must outlive this object.
class Numbering {
 public:
  explicit Numbering(const Element& e) { add(e); }
  // -1: it is none of them.
  int of(const Element& e) const {
    const auto found = numbers_.find(e.get());
    return found == numbers_.end() ? -1 : found->second;
  }

 private:
  void add(const Element& e);
  std::map<const ElementNode*, int> numbers_;
};

// The sub-expressions that may become stages: they depend on axes of the result alone, and no guard protects them.
struct Storable {
  int expression = 0;        // its number
  std::int64_t repeats = 1;  // elements of the result that share one of it
  int work = 0;              // operations of an element, by their time
};
std::vector<Storable> storable(const Element& e, const Indices& position, const Sizes& sizes);

// Does an extraction by the estimate find no stages in this element of a group's only value? False also where the element is
// too large for a short look.
bool has_no_stages(const Element& e);

// Expressions with their variables renamed in the order in which they are bound, so that equal ones compare equal.
class NormalForms {
 public:
  explicit NormalForms(int most_nodes = 400) : most_nodes_(most_nodes) {}
  // `position`: the atoms of the axes. Null for an expression that is too large to be compared.
  Element of(const Element& e, const Indices& position);

 private:
  Element renamed(const Element& e, std::size_t depth);

  Indices axes_, bound_;
  std::map<std::uint64_t, Index> names_;
  int most_nodes_, left_ = 0;
};

class Extraction {
 public:
  // Stages are read as operands from the end of `operands` on, values from number `values` on. `shares`: do several values have
  // expressions in common?
  Extraction(std::vector<TileOperand>& operands, std::size_t values, bool shares)
      : operands_(operands), given_(static_cast<int>(operands.size())), values_(static_cast<int>(values)), shares_(shares) {}

  struct Stage {
    Element element;
    Indices position;
    TileOperand output;
    std::set<std::size_t> axes;  // that it depends on
    Element normal;              // null: not compared
    int expression = -1;         // its number in the value's expression
  };
  std::vector<Stage> stages;
  std::vector<int> reused;  // expressions of the last value that are read from stages which were there
  bool shared = false;      // does a value use a stage of another one?

  // The expression of a value with stages extracted: those that the estimate finds worthwhile, or those of the given numbers.
  // By estimate reductions are extracted, innermost first, and then what is computed from them alone.
  Element take(const Element& e, const Indices& position, const Sizes& sizes, const std::set<int>* chosen);

 private:
  Element take_reductions(const Element& e);
  Element hoist(const Element& e);
  Element take_chosen(const Element& e, const std::set<int>& chosen);
  // Positions that are looked up, as those of a grid's samples are, which all channels share.
  template <class Change>
  Element with_positions(const Element& e, const Change& change);

  struct Contents {
    bool stages = false;     // does it read some, or other values?
    bool expensive = false;  // does it take longer to compute than to read?
    bool reads = false;      // does it depend on an operand?
    int work = 0;            // operations of an element, by their time
  };
  const Contents& contents_of(const Element& e);
  // The expression as a stage's result, if at least so many elements share each of that; else as it is.
  Element take_out(const Element& e, std::int64_t least_repeats, int expression);
  // The stage that computes the same; -1: none.
  int find(const Element& normal, const std::set<std::size_t>& axes) const;
  Element read(int number) const;
  int number_of(const Element& e) const;

  std::vector<TileOperand>& operands_;
  int given_, values_;
  bool shares_;
  std::size_t before_ = 0;  // stages of earlier values
  Indices position_;
  Sizes sizes_;
  std::map<std::uint64_t, std::size_t> axis_of_;
  FreeVariables free_;
  NormalForms normal_forms_;
  std::vector<Element> kept_;  // whose free variables are known by address
  std::map<Element, Element> taken_, hoisted_;
  std::map<Element, Contents> contents_;
  std::optional<Numbering> numbering_;
  std::map<Element, int> origin_;  // numbers of expressions that were changed
};

}  // namespace rewright::cpu
