// A good choice for each node and given value of a partition's integer program, in little time: where the program's own search
// begins, and what it has at least when its time is over.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/namespaces.h"

namespace rewright::plans {

// Variables with a cost for each of their labels, and terms between them: a value in the form in which its source makes it, and
// in those that its readers need. Each other form costs once, however many readers share it.
struct LabelProgram {
  struct Variable {
    std::vector<double> costs;
    std::vector<double> bytes;  // empty: none
  };
  struct Side {
    std::size_t variable = 0;
    std::vector<std::size_t> forms;  // by label
  };
  struct Term {
    Side source;
    std::vector<Side> readers;
    std::vector<std::vector<double>> costs;  // from a form to another; infinite: not to be had
  };
  std::vector<Variable> variables;  // sources stand before their readers, where they are computed
  std::vector<Term> terms;
  double most_bytes = std::numeric_limits<double>::infinity();
};

double cost_of(const LabelProgram& program, const std::vector<std::size_t>& labels);

// Labels of the least cost that is found: variable by variable, each as is best beside those before it, then changed one at a
// time, and with all that a change makes worth changing beside it, while the cost falls or there is time. Deterministic where
// time does not end it. Empty where none is found that can be had.
std::vector<std::size_t> good_labels(const LabelProgram& program, double seconds);

}  // namespace rewright::plans
