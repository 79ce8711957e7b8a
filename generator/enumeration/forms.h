// Types of tensors and typed applications of operators, each stored once. Sizes are symbols; elements are those for several
// assignments of numbers to the symbols, concatenated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generator/enumeration/configuration.h"
#include "generator/enumeration/program.h"

namespace rewright::generator {

// A key near `number` for which 0 is in the middle of the order of residues (that of maxima). Otherwise relu would change
// almost every element, or almost none.
std::uint64_t sound_key(std::uint64_t number);

using TypeId = std::uint32_t;
using FormId = std::uint32_t;

struct KnownType {
  TensorType type;                   // symbolic
  std::vector<TensorType> assigned;  // with the sizes of each assignment
  std::vector<std::size_t> offsets;  // where each assignment's elements begin
  std::size_t elements = 0;          // of all assignments
};

// An operator with its attributes on operands of given types.
struct Form {
  std::uint32_t choice = 0;
  std::uint32_t variant = 0;                // index into the choice's attributes
  Attributes attributes;                    // normalized, with symbolic sizes
  std::vector<TypeId> operands, outputs;    // operands: without parameters
  std::vector<std::size_t> output_offsets;  // where each output begins in the results
  Program program, activation;              // activation: applied to the results of `program`, if the choice has one
  std::vector<FurtherStep> further;         // normalized, with symbolic sizes
  std::vector<Program> further_programs;    // of each of them
  std::vector<std::vector<std::size_t>> further_offsets;  // where each of its operands begins in the results before
  std::vector<std::vector<Residue>> further_constants;    // the elements of its constant, if it has one
  std::size_t results = 0;                                // elements of all outputs
  double cost = 0;                                        // estimate from operations and from elements read and written
};

// A copy has the same types and forms under the same numbers.
class Forms {
 public:
  // Forms whose results have more elements than this in one assignment are left out. So are those with fewer, because too few
  // elements do not tell values apart where maxima are involved.
  static constexpr std::int64_t kMaximumElements = 4096, kMinimumElements = 2;

  explicit Forms(const Configuration& configuration);

  const Configuration& configuration() const { return configuration_; }
  const KnownType& type(TypeId id) const { return types_[id]; }
  std::size_t type_count() const { return types_.size(); }
  TypeId intern(const TensorType& type);
  const Form& form(FormId id) const { return *forms_[id]; }

  // The well-typed applications of a choice to operands of these types, in the order of the choice's attributes. Not
  // thread-safe.
  const std::vector<FormId>& find(std::uint32_t choice, std::span<const TypeId> operands);

  // Computes the elements of all outputs; false if one is not in the field. Thread-safe if each thread has its own scratch.
  struct Scratch {
    std::vector<Residue> registers, intermediate;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<Residue>> parameters;  // by leaf and key
  };
  bool evaluate(const Form& form, std::span<const Residue* const> operands, std::uint64_t key, Scratch& scratch,
                Residue* results) const;

  // The elements of a leaf. A variable's are random, determined by the key and the variable's number.
  std::vector<Residue> leaf_elements(const Leaf& leaf, std::uint64_t number, std::uint64_t key) const;
  std::vector<Residue> random_elements(TypeId type, std::uint64_t number, std::uint64_t key) const;

 private:
  Substitution sizes_of(std::size_t assignment) const;
  bool holds(const Condition& condition) const;
  std::unique_ptr<Form> make(const Choice& choice, Attributes attributes, std::span<const TypeId> operands);
  Program compile(const Operator& op, const Attributes& attributes, std::span<const TypeId> operands,
                  std::vector<TypeId>& outputs, std::int64_t fewest);

  const Configuration& configuration_;
  std::vector<KnownType> types_;
  std::map<std::string, TypeId> type_ids_;
  std::vector<std::shared_ptr<const Form>> forms_;
  std::map<std::pair<std::uint32_t, std::array<TypeId, 3>>, std::vector<FormId>> known_;
};

// Attributes with symbols replaced.
Attributes substitute(const Attributes& attributes, const Substitution& replacement);

}  // namespace rewright::generator
