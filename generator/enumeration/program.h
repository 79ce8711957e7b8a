// An operator's denotation unrolled for known sizes: straight-line code over the elements of the operands, in the prime field
// of fingerprints. Compiled once for each operator, attributes and operand types; run on many operands.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "operators/operator.h"

namespace rewright::generator {

// Residues modulo 2^61 - 1, see FieldArithmetic.
using Residue = std::uint64_t;

// Programs run in LawfulField, or in FieldArithmetic as the interpreter does.
class Program {
 public:
  // The location of a value: an operand or a register. The highest three bits select which.
  using Place = std::uint32_t;
  static constexpr std::uint32_t kRegisters = 7, kOffsetBits = 29;
  static constexpr std::size_t kMaximumOperands = kRegisters;
  static Place place(std::uint32_t where, std::size_t offset) { return where << kOffsetBits | static_cast<Place>(offset); }

  enum class Code : std::uint8_t { kAdd, kMultiply, kDivide, kMaximum, kMinimum, kApply, kTest, kSelect, kSum, kSumOfProducts };
  struct Instruction {
    Code code;
    std::uint32_t a = 0, b = 0, c = 0;  // places; of kSum and kSumOfProducts: from a to b in `terms()`
    const Function* function = nullptr;
  };

  // Computes the elements of all outputs, concatenated like the operands' elements. False if a result is not in the field (an
  // empty maximum). `registers` is scratch.
  template <class Field>
  bool run(std::span<const Residue* const> operands, const Field& field, std::vector<Residue>& registers,
           Residue* results) const;
  // Computes, instead of elements, numbers that identify the operations behind each element. Equal numbers mean the same
  // operations on the same elements in the same order, except for the order of the operands of an addition, multiplication or
  // maximum, and repeated operands of a maximum.
  class Trace;
  void run(std::span<const Residue* const> operands, Trace& trace, std::vector<Residue>& registers, Residue* results) const;
  std::size_t result_count() const { return results_.size(); }
  double operation_count() const { return static_cast<double>(instructions_.size() + terms_.size()); }

 private:
  friend class ProgramBuilder;
  struct Frame;
  // Writes constant(c) for each constant c into its register.
  template <class Constant>
  Frame begin(std::span<const Residue* const> operands, std::vector<Residue>& registers, const Constant& constant) const;

  std::vector<Residue> constants_;  // in the first registers; without real constants that depend on the key
  std::vector<Instruction> instructions_;
  std::vector<Place> terms_;
  std::vector<Place> results_;
};

// Numbers operations. Numbers of one trace are comparable.
class Program::Trace {
 public:
  Residue constant(Residue value) const;
  Residue variable(std::uint64_t tensor, std::uint64_t element) const;
  Residue operation(Code code, Residue a, Residue b, Residue c = 0, const Function* function = nullptr);

 private:
  std::unordered_map<Residue, std::vector<Residue>> extremes_;  // operands of each maximum or minimum
};

// Compiles definitions of known sizes into one program: one operator for several shape assignments, whose operands are
// concatenated.
class ProgramBuilder {
 public:
  // Appends the elements of an output, where the elements of operand k begin at offsets[k]. Throws Error(kUnsupported) for what
  // has no meaning in the field: integer operands, unknown sizes.
  void add(const Output& output, std::span<const TensorType> operands, std::span<const std::size_t> offsets);
  Program finish() &&;

 private:
  struct Unroller;
  Program program_;
};

}  // namespace rewright::generator
