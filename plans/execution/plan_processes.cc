#include "plans/execution/plan_processes.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rewright::plans {

PlanProcesses::PlanProcesses(distribution::Communicator& all, std::size_t groups) : all_(all) {
  if (groups == 0 || all.size() % groups != 0)
    throw Error(ErrorCode::kUsage, std::to_string(all.size()) + " processes are no " + std::to_string(groups) + " groups");
  const std::size_t size = all.size() / groups, group = all.rank() / size, number = all.rank() % size;
  std::vector<std::size_t> within, between;
  for (std::size_t p = 0; p < size; ++p) within.push_back(group * size + p);
  for (std::size_t g = 0; g < groups; ++g) between.push_back(g * size + number);
  if (groups > 1) within_ = distribution::make_communicator_of(all, std::move(within));
  between_ = distribution::make_communicator_of(all, std::move(between));
}

}  // namespace rewright::plans
