// Bottom-up enumeration over values: all tensors that graphs of at most N operators compute. Graphs that compute the same are
// members of one class, and the class is what larger graphs are built from.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "generator/forms.h"

namespace rewright::generator {

using ClassId = std::uint32_t;
inline constexpr ClassId kNoClass = ~ClassId{0};

struct Fingerprint {
  TypeId type = 0;
  std::uint64_t first = 0, second = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
Fingerprint fingerprint(TypeId type, std::span<const Residue> elements);

// One way to compute a class: an output of a form applied to classes.
struct Member {
  FormId form;
  std::uint32_t output;
  std::array<ClassId, 3> operands;  // kNoClass beyond the form's
  ClassId result;
};

// All graphs of one value.
struct Class {
  Fingerprint fingerprint;
  std::uint8_t operators = 0;              // of the smallest graph
  std::uint32_t support = 0;               // the variables that it was computed from, a bit each
  std::uint32_t leaf = ~std::uint32_t{0};  // if it is one
  std::uint32_t best = ~std::uint32_t{0};  // the cheapest of the members with the fewest operators; none for a leaf
  double cost = 0;                         // of the best member, with its operands
  bool zero = false;                       // everywhere, and no leaf: larger graphs are not built from it
};

struct EnumerationOptions {
  std::size_t operators = 3;
  std::uint64_t key = 1;
  int threads = 1;
  std::size_t memory = std::size_t{4} << 30;
  std::stop_token stop{};
  // Called now and then: how many of this many operators, and the share of them that is done.
  std::function<void(std::size_t operators, std::size_t applications)> progress{};
};

class Enumeration {
 public:
  Enumeration(Forms& forms, EnumerationOptions options);

  // Throws Error(kMissing) if the memory that was allowed does not suffice. When asked to stop, ends with the members of the
  // levels that were finished.
  void run();
  bool complete() const { return complete_; }

  Forms& forms() const { return forms_; }
  const std::vector<Class>& classes() const { return classes_; }
  const std::vector<Member>& members() const { return members_; }
  // The first member that was found among those with at least this many operators.
  std::size_t first_member(std::size_t operators) const {
    return operators < first_members_.size() ? first_members_[operators] : members_.size();
  }
  std::uint64_t key() const { return options_.key; }

  // How many graphs of at most N operators (at most 3) the classes stand for: sets of operator applications that contain the
  // operands of each, where a graph may have several outputs, and variables of a group may be exchanged.
  // Counted from the members, not one by one.
  double graph_count() const;

 private:
  struct Pending {
    FormId form;
    std::array<ClassId, 3> operands;
  };
  // Results of a block of pending applications: filled in parallel, used in order.
  struct Block {
    std::vector<Pending> pending;
    std::vector<Fingerprint> fingerprints;  // of each output
    std::vector<std::uint8_t> valid;
    std::vector<Residue> elements;  // unless it is the last level
  };
  using Tokens = std::vector<std::uint32_t>;  // what graphs of a class consist of: one number an operator application

  void add_leaves();
  void level(std::size_t operators);
  void unary(std::uint32_t choice, std::size_t operators);
  void binary(std::uint32_t choice, std::size_t operators);
  void ternary(std::uint32_t choice, std::size_t operators);
  void apply(std::uint32_t choice, std::array<ClassId, 3> operands, std::size_t arity);
  void flush();
  void insert(const Pending& pending, std::uint32_t output, const Fingerprint& fingerprint, const Residue* elements,
              std::uint32_t token, std::uint32_t support);
  ClassId* slot(const Fingerprint& fingerprint);
  void grow();
  bool admissible(std::uint32_t choice, std::span<const ClassId> operands) const;
  bool canonical(std::uint32_t support) const;
  std::uint32_t support_of(std::span<const ClassId> operands) const;
  std::size_t smallest_union(ClassId a, ClassId b) const;
  void add_token(ClassId result, const Pending& pending, std::uint32_t token);
  double cost_of(const Form& form, std::span<const ClassId> operands) const;
  void check_memory() const;

  Forms& forms_;
  EnumerationOptions options_;
  std::vector<Class> classes_;
  std::vector<Member> members_;
  std::vector<ClassId> table_;                               // open addressing by fingerprint
  std::vector<std::vector<Residue>> elements_;               // of classes below the last level
  std::vector<std::vector<Tokens>> tokens_;                  // of classes below the last level
  std::vector<std::vector<std::vector<ClassId>>> by_level_;  // by level and type
  std::vector<std::pair<ClassId, ClassId>> siblings_;        // two outputs of one application that is new
  std::vector<std::uint32_t> groups_;                        // the variables of each group, as bits
  std::vector<std::size_t> first_members_;                   // by level
  std::uint32_t next_token_ = 0;
  std::uint32_t scalars_ = 0;  // what depends on these variables alone has too few different elements to tell values apart
  Block block_;
  std::size_t level_ = 0, levels_ = 0, block_elements_ = 0, element_bytes_ = 0;
  bool complete_ = true;
};

}  // namespace rewright::generator
