// One side of a TASO rule as a pattern; unknown sizes are inferred on the way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rules/rule.h"
#include "rules/taso/ranks.h"
#include "rules/taso/sizes.h"

namespace rewright::rules::taso {

// TASO's split information: where an axis was last concatenated, recursively for both parts. Nothing is known of inputs until
// they are split.
struct SplitTree {
  bool known = false;
  std::size_t joints = 0;                      // concatenations in it, including its own
  Index left, right;                           // sizes of the parts
  std::shared_ptr<SplitTree> lower, upper;     // null: not splittable
  std::vector<std::pair<Index, Index>> equal;  // sizes that must be equal for the split to exist
};
using SplitTreePointer = std::shared_ptr<SplitTree>;

// A shape: of unknown rank, sizes at the front, then a list, then sizes at the back.
struct TensorShape {
  Indices sizes;
  std::vector<SplitTreePointer> trees;  // one a size
  bool open = false;
  std::size_t front = 0;  // how many sizes are before the list; only if open
  std::string list{};     // only if open
};

inline constexpr std::int32_t kMaximumKernel = 64;  // height and width

SplitTreePointer unknown_tree();
std::vector<SplitTreePointer> unknown_trees(std::size_t count);
// Four axes, the last two of which cannot be split.
TensorShape four(Indices sizes, SplitTreePointer first, SplitTreePointer second);

// Shared by both sides of a rule.
struct Context {
  const RuleText& rule;
  Ranks ranks;
  Sizes sizes;
  std::map<std::int32_t, std::uint32_t> inputs;  // TASO's numbers, and ours
  std::vector<TensorShape> shapes;               // by input
  std::map<std::size_t, std::string> lists;      // names for the axes in between, by rank class
  bool one_group = false;                        // assume one group for convolutions whose shapes leave it open
  bool split_kernels = false;                    // write the number of kernels as groups times another size
  bool fixed_kernels = false;                    // the kernel sizes given in convolutions hold
  Expression element_type;
  struct Groups {
    Index channels, depth, groups;
  };
  std::vector<Groups> groups;  // channels = depth * groups, of convolutions of the source

  // A convolution's channels divided by its kernel's depth.
  Index quotient(const Index& channels, const Index& depth) const;

  explicit Context(const RuleText& text) : rule(text), ranks(text) {}
};

class SideBuilder {
 public:
  SideBuilder(Context& context, bool target) : context_(context), target_(target) {}

  // Throws Error(kBadInput) for anything that cannot be expressed.
  void build();
  const TensorShape& shape(const Reference& tensor);
  // Gives identity kernels one group where nothing determines the number.
  void choose_groups();
  // Called when all sizes are known.
  Pattern pattern() const;

 private:
  using Value = std::function<Expression()>;
  struct Attribute {
    std::string name;
    Value value;
  };
  struct Draft {
    const Operator* op;
    std::vector<PatternValue> inputs;
    std::vector<Attribute> attributes;
    std::uint32_t outputs;
  };
  struct Result {
    std::vector<PatternValue> values;
    std::vector<TensorShape> shapes;
    Index groups = 0;  // of merge_gconv: groups of the convolution that uses it
  };

  PatternValue node(const char* op, std::vector<PatternValue> inputs, std::vector<Attribute> attributes = {},
                    std::uint32_t outputs = 1);
  Attribute index(std::string name, Index value) const;
  Attribute list(std::string name, Indices values) const;
  static Attribute literal(std::string name, AttributeValue value);
  Attribute element_type() const;
  PatternValue filled(double value, const Value& shape);
  PatternValue activated(std::int32_t activation, PatternValue value);

  PatternValue value(const Reference& tensor) const;
  TensorShape shape_of_unknowns(const RankClass& ranks, const std::vector<std::string>& letters) const;
  std::vector<std::string> letters(std::int32_t input, std::size_t rank) const;
  void equate_shapes(const TensorShape& a, const TensorShape& b, const std::string& what);
  SplitTreePointer combined(const SplitTreePointer& a, const SplitTreePointer& b) const;
  void expand(SplitTree& tree, const Index& size);

  Result visit(const Operation& op, std::int32_t number);
  Result elementwise(const Operation& op);
  Result convolution(const Operation& op);
  Result pool(const Operation& op);
  Result product(const Operation& op);
  Result concatenation(const Operation& op);
  Result split(const Operation& op);
  Result transpose(const Operation& op);
  Result scale(const Operation& op);
  Result enlarge(const Operation& op);
  Result merge_groups(const Operation& op);
  Result identity_kernel(const Operation& op);
  Result pool_kernel(const Operation& op);
  Result ones(const Operation& op, std::int32_t number);
  Result identity_matrix();
  void window(const Operation& op, const Indices& sizes, const Indices& kernel, std::vector<Attribute>& attributes,
              Indices& counts) const;

  Context& context_;
  bool target_;
  std::vector<Draft> drafts_;
  std::vector<Result> results_;
  std::vector<std::pair<Index, Index>> identity_kernels_;  // kernels, and channels of each
};

}  // namespace rewright::rules::taso
