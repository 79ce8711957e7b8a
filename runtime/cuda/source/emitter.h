// Writes statements that compute an element expression at one position.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "expressions/free_variables.h"
#include "runtime/cuda/source/generated_kernel.h"
#include "runtime/cuda/source/index_range.h"
#include "runtime/cuda/source/reduction_nest.h"

namespace rewright::cuda {

class Emitter {
 public:
  explicit Emitter(const std::vector<KernelOperand>& operands) : operands_(operands) { open(); }

  IndexRanges ranges;
  // The number of threads that share a reduction.
  int lanes = 1;
  // Unrolls `count` consecutive elements along this variable, starting at `base`, a multiple of `count`. Contiguous reads
  // become vector reads.
  void unroll(const Index& variable, const std::string& base, int count, IndexRange range);
  void part(int number);  // selects the unrolled element for the next statements
  // Registers the text of an address that many reads share.
  void know(const Index& address, const std::string& text);

  // Opens a scope. Variables in it are not visible outside.
  void open();
  std::string close();  // returns its statements
  void close_into();    // appends its statements to the enclosing scope
  void line(const std::string& statement);
  // Sets the text of a variable: a name or a number.
  void define(const Index& variable, const std::string& text, IndexRange range);
  // Returns the value as a name or literal, after writing the statements that compute it.
  std::string element(const Element& e);
  std::string index(const Index& i);
  std::string condition(const std::vector<Condition>& conditions);  // "" if always true, "false" if never
  // Writes reductions that depend only on the variables `available` into this scope.
  void hoist(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes);

  bool wide() const { return wide_; }  // do indices need more than 32 bits?
  bool checks_positions() const { return checks_; }

 private:
  struct Scope {
    std::string code;
    std::map<std::string, std::string> texts;  // expression -> variable
    std::map<const ElementNode*, std::string> elements;
    bool guarded = false;  // entered under a condition
  };
  std::string let(const std::string& type, const std::string& text);
  std::string fresh(const std::string& prefix) { return prefix + std::to_string(++names_); }
  std::string atom(const Atom& atom);
  std::string monomial(const Monomial& m);
  void note(IndexRange range);
  std::string compute(const Element& e);
  std::string read(const ElementNode& e);
  std::string branch(const std::string& condition, const Element& then, const Element& otherwise, Scalar scalar);
  std::string reduce(const ElementNode& e, bool in_all_lanes);
  std::string as(const Element& e, Scalar scalar);
  void hoist_inside(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes,
                    std::set<const ElementNode*>& seen);
  bool reads_vector(const Index& address) const;
  Index without_constants(const Index& address) const;
  std::string address(const Index& address, bool of_first);

  const std::vector<KernelOperand>& operands_;
  std::vector<Scope> scopes_;
  std::map<std::uint64_t, std::string> variables_;
  FreeVariables free_;
  std::uint64_t unrolled_ = 0;
  std::string base_;
  int vector_ = 1, part_ = 0;
  std::optional<Index> known_address_;
  std::string known_text_;
  int names_ = 0;
  bool wide_ = false, checks_ = false;
};

}  // namespace rewright::cuda
