#include "optimizer/integer_program/integer_program.h"

#include <Highs.h>

#include <algorithm>

#include "base/error.h"

namespace rewright::optimizer {

namespace {

constexpr std::int64_t kHopelessIterations = 300;

}  // namespace

int IntegerProgram::add_variable(double cost, double lower, double upper, bool integer) {
  costs_.push_back(cost);
  lower_.push_back(lower);
  upper_.push_back(upper);
  integer_.push_back(integer);
  return static_cast<int>(costs_.size() - 1);
}

void IntegerProgram::add_row(double lower, double upper, const std::vector<std::pair<int, double>>& terms) {
  for (const auto& [variable, coefficient] : terms) {
    columns_.push_back(variable);
    coefficients_.push_back(coefficient);
  }
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  row_start_.push_back(static_cast<int>(columns_.size()));
}

IntegerProgram::Solution IntegerProgram::minimize(const std::vector<double>& start, const Options& options) const {
  Highs highs;
  highs.setOptionValue("output_flag", false);
  highs.setOptionValue("parallel", "off");
  highs.setOptionValue("threads", 1);
  highs.setOptionValue("random_seed", options.seed);
  highs.setOptionValue("mip_rel_gap", options.gap);
  highs.setOptionValue("mip_max_nodes", static_cast<HighsInt>(options.nodes));
  highs.setOptionValue("time_limit", std::max(0.0, options.seconds));
  HighsModel model;
  HighsLp& lp = model.lp_;
  lp.num_col_ = static_cast<HighsInt>(costs_.size());
  lp.num_row_ = static_cast<HighsInt>(row_lower_.size());
  lp.sense_ = ObjSense::kMinimize;
  lp.col_cost_ = costs_;
  lp.col_lower_ = lower_;
  lp.col_upper_ = upper_;
  lp.row_lower_ = row_lower_;
  lp.row_upper_ = row_upper_;
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  lp.a_matrix_.start_.assign(row_start_.begin(), row_start_.end());
  lp.a_matrix_.index_.assign(columns_.begin(), columns_.end());
  lp.a_matrix_.value_ = coefficients_;
  if (!options.relaxed)
    for (const bool integer : integer_) lp.integrality_.push_back(integer ? HighsVarType::kInteger : HighsVarType::kContinuous);
  if (highs.passModel(std::move(model)) == HighsStatus::kError)
    throw Error(ErrorCode::kUsage, "the solver refuses the program");
  if (!start.empty()) {
    HighsSolution solution;
    solution.col_value = start;
    highs.setSolution(solution);
  }
  // The first node may take longer than all others, so a limit on nodes is not enough.
  highs.setCallback([&](int, const std::string&, const HighsCallbackOutput* now, HighsCallbackInput* reply, void*) {
    if (now->mip_total_lp_iterations >= options.iterations ||
        (now->mip_total_lp_iterations >= kHopelessIterations && now->mip_dual_bound < options.hopeless * now->mip_primal_bound))
      reply->user_interrupt = 1;
  });
  highs.startCallback(kCallbackMipInterrupt);
  Solution result;
  if (highs.run() == HighsStatus::kError) return result;
  result.timed_out = highs.getModelStatus() == HighsModelStatus::kTimeLimit;
  const HighsInfo& info = highs.getInfo();
  result.nodes = info.mip_node_count;
  result.iterations = info.simplex_iteration_count;
  if (info.mip_dual_bound > -kInfinite) result.bound = info.mip_dual_bound;
  if (info.primal_solution_status != kSolutionStatusFeasible) return result;
  result.status = highs.getModelStatus() == HighsModelStatus::kOptimal ? Status::kOptimal : Status::kLimit;
  result.values = highs.getSolution().col_value;
  result.cost = info.objective_function_value;
  result.bound = std::min(result.cost, result.bound);
  return result;
}

}  // namespace rewright::optimizer
