// Bottom-up enumeration over values: all tensors that graphs of at most N operators compute. Graphs that compute the same are
// members of one class, and the class is what larger graphs are built from. The last level, on which nothing is built, is
// much larger than all others together: it is only enumerated here, and last_level.h says what comes of it.
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

// One computation of a class: an output of an application.
struct Member {
  FormId form;
  std::uint32_t output;
  std::array<ClassId, 3> operands;
  ClassId result;
};

// All graphs of one value.
struct Class {
  Fingerprint fingerprint;
  std::uint8_t operators = 0;              // of the smallest graph, without those on weights that count as leaves
  std::uint32_t support = 0;               // the variables that it was computed from, a bit each
  std::uint32_t leaf = ~std::uint32_t{0};  // if it is one
  std::uint32_t best = ~std::uint32_t{0};  // the cheapest of the members with the fewest operators; none for a leaf
  double cost = 0;                         // of the best member, with its operands
  bool zero = false;                       // everywhere, and no leaf: larger graphs are not built from it
};

// Throws Error(kMissing) if this process's resident memory and `more` bytes exceed what is allowed. `what_takes` begins the
// message: "the rules that are written take".
void require_memory(std::size_t allowed, const std::string& what_takes, std::size_t more = 0);

struct EnumerationOptions {
  std::size_t operators = 3;
  std::uint64_t key = 1;
  int threads = 1;
  std::size_t memory = std::size_t{4} << 30;
  std::stop_token stop{};
  // Called now and then: how many applications of how many operators there are so far.
  std::function<void(std::size_t operators, std::size_t applications)> progress{};
};

class Enumeration {
 public:
  Enumeration(Forms& forms, EnumerationOptions options);

  // All levels below the last. Throws Error(kMissing) if the memory that was allowed does not suffice. When asked to stop, ends
  // with the levels that were finished.
  void run();
  bool complete() const { return complete_; }
  std::size_t finished_levels() const { return levels_; }

  // The applications of the last level, in blocks of an order that is always the same; ends early when `take` returns false.
  static constexpr std::size_t kBlock = 1 << 15;
  using Take = std::function<bool(std::span<const Application>)>;
  void last_level(const Take& take);

  Forms& forms() const { return forms_; }
  const EnumerationOptions& options() const { return options_; }
  std::uint64_t key() const { return options_.key; }
  // Classes and members of the levels below the last.
  const std::vector<Class>& classes() const { return classes_; }
  const std::vector<Member>& members() const { return members_; }
  // The first member that was found among those with at least this many operators.
  std::size_t first_member(std::size_t operators) const {
    return operators < first_members_.size() ? first_members_[operators] : members_.size();
  }
  ClassId find(const Fingerprint& fingerprint) const;  // or kNoClass
  // The elements of all outputs; false if one is not in the field. Thread-safe.
  bool evaluate(const Application& application, Forms::Scratch& scratch, Residue* results) const;
  double cost_of(const Application& application) const;  // with its operands

  // An application of the last level stands for this many, with other variables of the same groups.
  double renamings(const Application& application) const;

  // The elements of the classes are not needed any more.
  void release_elements();

 private:
  static constexpr std::size_t kBlockElements = 1 << 21;
  // Results of a block of pending applications: filled in parallel, used in order.
  struct Block {
    std::vector<Application> pending;
    std::size_t results = 0;                // elements of all of them
    std::vector<Fingerprint> fingerprints;  // of each output
    std::vector<std::uint8_t> valid;
    std::vector<Residue> elements;
  };
  using Tokens = std::vector<std::uint32_t>;  // what graphs of a class consist of: one number an operator application
  using Pairs = std::vector<std::pair<ClassId, ClassId>>;

  void add_leaves();
  void prepare_weights();  // graphs of weights, which are leaves afterwards
  void sort_by_type(ClassId first, std::size_t level);
  void applications();  // of the current level: applications.cc
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
  // Is a value computed from weights alone, and these count as leaves?
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
  // Before a level: from how many applications it has, and how many of those of the level before gave values that were new.
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
  std::vector<std::uint32_t> groups_;                        // the variables of each group, as bits
  std::vector<std::size_t> first_members_;                   // by level
  std::uint32_t next_token_ = 0;
  std::vector<std::uint32_t> leaf_bits_;  // of each leaf
  std::uint32_t weights_ = 0;             // the variables that are weights
  std::uint32_t scalars_ = 0;  // what depends on these variables alone has too few different elements to tell values apart
  Block block_;
  const Take* take_ = nullptr;  // on the last level
  std::size_t level_ = 0, levels_ = 0;
  bool complete_ = true, ended_ = false, preparing_ = false;
};

}  // namespace rewright::generator
