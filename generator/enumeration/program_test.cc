#include "generator/enumeration/program.h"

#include <catch2/catch.hpp>

#include "generator/enumeration/field.h"
#include "generator/enumeration/forms.h"
#include "generator/enumeration/operator_list.h"
#include "operators/readings/interpreter.h"

using namespace rewright;
using namespace rewright::generator;

TEST_CASE("a program computes what the interpreter computes in the field", "[program]") {
  // All forms of one operator on the leaves of every set.
  for (const OperatorSet& set : operator_sets()) {
    const Configuration configuration = configure(set.name);
    Forms forms(configuration);
    std::vector<TypeId> types;
    for (const Leaf& leaf : configuration.leaves) types.push_back(forms.intern(leaf.type));
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    constexpr std::uint64_t kKey = 17;
    std::size_t compared = 0;
    for (std::uint32_t c = 0; c < configuration.choices.size(); ++c) {
      const Choice& choice = configuration.choices[c];
      if (choice.activation || choice.arity > 2) continue;
      for (const TypeId a : types)
        for (const TypeId b : types) {
          if (choice.arity == 1 && b != types[0]) continue;
          const std::vector<TypeId> operands = choice.arity == 1 ? std::vector{a} : std::vector{a, b};
          for (const FormId id : forms.find(c, operands)) {
            const Form& form = forms.form(id);
            std::vector<std::vector<Residue>> elements;
            std::vector<const Residue*> pointers;
            for (std::size_t k = 0; k < operands.size(); ++k) elements.push_back(forms.random_elements(operands[k], k, kKey));
            for (const auto& e : elements) pointers.push_back(e.data());
            std::vector<Residue> registers, results(form.program.result_count());
            REQUIRE(form.program.run(pointers, FieldArithmetic{kKey}, registers, results.data()));
            for (std::size_t s = 0; s < form.further.size(); ++s) {
              std::vector<const Residue*> between;
              for (const std::size_t offset : form.further_offsets[s]) between.push_back(&results[offset]);
              if (form.further[s].constant) between.push_back(form.further_constants[s].data());
              std::vector<Residue> next(form.further_programs[s].result_count());
              REQUIRE(form.further_programs[s].run(between, FieldArithmetic{kKey}, registers, next.data()));
              results = std::move(next);
            }
            for (std::size_t n = 0; n < configuration.assignments(); ++n) {
              std::vector<FieldTensor> inputs;
              for (std::size_t k = 0; k < operands.size(); ++k) {
                const KnownType& type = forms.type(operands[k]);
                const Sizes sizes = values(type.assigned[n].shape);
                const auto begin = elements[k].begin() + static_cast<std::ptrdiff_t>(type.offsets[n]);
                inputs.push_back({DataType::kFloat, sizes, {begin, begin + element_count(sizes)}});
              }
              const Substitution known = [&](const Atom& atom) -> std::optional<Index> {
                for (const Configuration::Symbol& s : configuration.symbols)
                  if (s.name == atom.name) return Index(s.sizes[n]);
                return std::nullopt;
              };
              auto expected = interpret_in_field(*choice.op, substitute(form.attributes, known), inputs, kKey);
              for (const FurtherStep& step : form.further) {
                if (step.constant)
                  for (auto& made : interpret_in_field(*step.constant, step.constant_attributes, {}, kKey))
                    expected.push_back(std::move(made));
                expected = interpret_in_field(*step.op, substitute(step.attributes, known), expected, kKey);
              }
              for (std::size_t o = 0; o < form.outputs.size(); ++o) {
                INFO(choice.name);
                const std::size_t at = form.output_offsets[o] + forms.type(form.outputs[o]).offsets[n];
                const std::vector<Residue> found(
                    results.begin() + static_cast<std::ptrdiff_t>(at),
                    results.begin() + static_cast<std::ptrdiff_t>(at + expected[o].elements.size()));
                CHECK(found == expected[o].elements);
                ++compared;
              }
            }
          }
        }
    }
    CHECK(compared >= 2);
  }
}
