// Bottom-up enumeration over values: all tensors computed by graphs of at most N operators. Graphs that compute the same value
// are members of one class, and larger graphs are built from classes. The last level, on which nothing is built, is much larger
// than all others together; it is only enumerated here, and evaluated in last_level.h.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "generator/enumeration/forms.h"

namespace rewright::generator {

using ClassId = std::uint32_t;
inline constexpr ClassId kNoClass = ~ClassId{0};

struct Fingerprint {
  TypeId type = 0;
  std::uint64_t first = 0, second = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
Fingerprint fingerprint(TypeId type, std::span<const Residue> elements);

// A form applied to classes; kNoClass beyond the form's operands.
struct Application {
  FormId form;
  std::array<ClassId, 3> operands;
};

// One way to compute a class: an output of an application.
struct Member {
  FormId form;
  std::uint32_t output;
  std::array<ClassId, 3> operands;
  ClassId result;
};

// All graphs that compute one value.
struct Class {
  Fingerprint fingerprint;
  std::uint8_t operators = 0;              // in the smallest graph; those on weights that count as leaves do not count
  std::uint32_t support = 0;               // the variables it is computed from, one bit each
  std::uint32_t leaf = ~std::uint32_t{0};  // the leaf's number, if it is a leaf
  std::uint32_t best = ~std::uint32_t{0};  // the cheapest of the members with the fewest operators; none for a leaf
  double cost = 0;                         // of the best member, with its operands
  bool zero = false;                       // zero everywhere, and not a leaf: no larger graphs are built from it
};

// Throws Error(kMissing) if this process's resident memory plus `more` bytes exceeds `allowed`. `what_takes` begins the
// message: "the rules that are written take".
void require_memory(std::size_t allowed, const std::string& what_takes, std::size_t more = 0);

struct EnumerationOptions {
  std::size_t operators = 3;
  std::uint64_t key = 1;
  int threads = 1;
  std::size_t memory = std::size_t{4} << 30;
  std::stop_token stop{};
  // Progress: the operators of the current level, and the applications so far.
  std::function<void(std::size_t operators, std::size_t applications)> progress{};
};

class Enumeration {
 public:
  Enumeration(Forms& forms, EnumerationOptions options);

  // Enumerates all levels below the last. Throws Error(kMissing) if the allowed memory is not enough. When asked to stop, keeps
  // the finished levels.
  void run();
  bool complete() const { return complete_; }
  std::size_t finished_levels() const { return levels_; }

  // Passes the applications of the last level to `take` in blocks, in a fixed order; ends early when `take` returns false.
  static constexpr std::size_t kBlock = 1 << 15;
  using Take = std::function<bool(std::span<const Application>)>;
  void last_level(const Take& take);

  Forms& forms() const { return forms_; }
  const EnumerationOptions& options() const { return options_; }
  std::uint64_t key() const { return options_.key; }
  // Classes and members of the levels below the last.
  const std::vector<Class>& classes() const { return classes_; }
  const std::vector<Member>& members() const { return members_; }
  // The first member with at least this many operators.
  std::size_t first_member(std::size_t operators) const {
    return operators < first_members_.size() ? first_members_[operators] : members_.size();
  }
  ClassId find(const Fingerprint& fingerprint) const;  // or kNoClass
  // The elements of all outputs; false if one is not in the field. Thread-safe.
  bool evaluate(const Application& application, Forms::Scratch& scratch, Residue* results) const;
  double cost_of(const Application& application) const;  // with its operands
  // Is it computed before a graph is run, from weights that count as leaves?
  bool beforehand(ClassId c) const { return weights_only(classes_[c].support); }
  // The elements of a class, of all assignments of sizes; not after release_elements().
  std::span<const Residue> elements(ClassId c) const { return elements_[c]; }

  // The number of applications that this one of the last level represents, by renaming variables within their groups.
  double renamings(const Application& application) const;

  // Frees the elements of the classes.
  void release_elements();

 private:
  static constexpr std::size_t kBlockElements = 1 << 21;
  // Results of a block of pending applications: filled in parallel, used in order.
  struct Block {
    std::vector<Application> pending;
    std::size_t results = 0;                // elements, of all applications
    std::vector<Fingerprint> fingerprints;  // of each output
    std::vector<std::uint8_t> valid;
    std::vector<Residue> elements;
  };
  using Tokens = std::vector<std::uint32_t>;  // a graph of a class as a set of application numbers
  using Pairs = std::vector<std::pair<ClassId, ClassId>>;

  void add_leaves();
  void prepare_weights();  // enumerates graphs of weights, which are leaves afterwards
  void sort_by_type(ClassId first, std::size_t level);
  void applications();  // enumerates the current level: applications.cc
  void unary(std::uint32_t choice);
  void binary(std::uint32_t choice, const Pairs& sharing);
  void ternary(std::uint32_t choice);
  Pairs sharing_pairs() const;
  void apply(std::uint32_t choice, const std::array<ClassId, 3>& operands, std::size_t arity, const std::vector<FormId>& forms);
  bool admissible(std::uint32_t choice, std::span<const ClassId> operands) const;
  bool canonical(std::uint32_t support) const;
  std::uint32_t support_of(const Application& application) const {
    return support_of(forms_.form(application.form).choice, operands_of(application));
  }
  std::uint32_t support_of(std::uint32_t choice, std::span<const ClassId> operands) const;
  // Is the value computed from weights alone, and do such values count as leaves?
  bool weights_only(std::uint32_t support) const {
    return forms_.configuration().weight_operators > 0 && (support & ~weights_) == 0;
  }
  bool is_last_level() const { return !preparing_ && level_ == options_.operators; }
  std::size_t smallest_union(ClassId a, ClassId b) const;

  void flush();
  void evaluate_block();
  void insert(const Application& application, std::uint32_t output, const Fingerprint& fingerprint, const Residue* elements,
              std::uint32_t token, std::uint32_t support);
  std::size_t slot(const Fingerprint& fingerprint) const;
  void grow();
  void add_token(ClassId result, const Application& application, std::uint32_t token);
  void check_memory() const;
  // Estimates the memory of a level before it starts, from its number of applications and the share of new values on the level
  // before.
  void foresee_memory();
  std::span<const ClassId> operands_of(const Application& application) const {
    return {application.operands.data(), forms_.form(application.form).operands.size()};
  }

  Forms& forms_;
  EnumerationOptions options_;
  std::vector<Class> classes_;
  std::vector<Member> members_;
  std::vector<ClassId> table_;                               // open addressing by fingerprint
  std::vector<std::vector<Residue>> elements_;               // of each class
  std::vector<std::vector<Tokens>> tokens_;                  // of each class
  std::vector<std::vector<std::vector<ClassId>>> by_level_;  // by level and type
  std::vector<std::uint32_t> groups_;                        // the variables of each group, as a bit mask
  std::vector<std::size_t> first_members_;                   // by level
  std::uint32_t next_token_ = 0;
  std::vector<std::uint32_t> leaf_bits_;  // bit masks by leaf
  std::uint32_t weights_ = 0;             // mask of the variables that are weights
  std::uint32_t scalars_ = 0;  // mask of variables with so few elements that values of them alone cannot be told apart
  Block block_;
  const Take* take_ = nullptr;  // set on the last level
  std::size_t level_ = 0, levels_ = 0;
  bool complete_ = true, ended_ = false, preparing_ = false;
};

}  // namespace rewright::generator
