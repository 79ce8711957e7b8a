// Linear programs with integer variables, minimized by HiGHS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace rewright::optimizer {

class IntegerProgram {
 public:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  // Adds a variable with these bounds; returns its number.
  int add_variable(double cost, double lower, double upper, bool integer);
  // lower <= sum of coefficient * variable <= upper. Each variable occurs at most once in `terms`.
  void add_row(double lower, double upper, const std::vector<std::pair<int, double>>& terms);
  std::size_t variables() const { return costs_.size(); }

  struct Options {
    double gap = 1e-4;                                                   // relative, between the solution and the bound
    std::int64_t nodes = 500;                                            // of branch and bound
    std::int64_t iterations = std::numeric_limits<std::int64_t>::max();  // of the simplex method
    // Gives up if after some iterations the bound is below this share of the best known solution: further iterations then
    // seldom find a better one.
    double hopeless = 0;
    double seconds = 10;
    int seed = 0;
    bool relaxed = false;  // integer variables may have any values between their bounds
  };
  enum class Status { kOptimal, kLimit, kNothing };  // kNothing: no solution was found
  struct Solution {
    Status status = Status::kNothing;
    std::vector<double> values;
    double cost = 0, bound = 0;
    std::int64_t nodes = 0, iterations = 0;
    bool timed_out = false;  // the result may differ in another run
  };
  // Single-threaded and deterministic unless time runs out. `start` may be empty.
  Solution minimize(const std::vector<double>& start, const Options& options) const;

 private:
  std::vector<double> costs_, lower_, upper_;
  std::vector<bool> integer_;
  std::vector<double> row_lower_, row_upper_;
  std::vector<int> row_start_{0};
  std::vector<int> columns_;
  std::vector<double> coefficients_;
};

}  // namespace rewright::optimizer
