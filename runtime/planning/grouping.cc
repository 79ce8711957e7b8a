#include "runtime/planning/grouping.h"

#include <algorithm>

#include "runtime/planning/partition.h"

namespace rewright::planning {

Partition::Partition(DeviceKernels& device)
    : kernels(device),
      graph(device.graph()),
      producers(graph.producers()),
      uses(graph, [&](std::size_t n) { return device.needed(n); }),
      group_of(graph.nodes().size(), -1),
      traits_(graph.nodes().size()),
      has_kernels_(graph.nodes().size()) {}

Group& Partition::add_group(int n) {
  group_of[static_cast<std::size_t>(n)] = static_cast<int>(groups.size());
  Group& group = groups.emplace_back();
  group.nodes = {n};
  group.result = node(n).outputs[0];
  return group;
}

void Partition::join(Group& group, int n) {
  group_of[static_cast<std::size_t>(n)] = group_of[static_cast<std::size_t>(group.nodes[0])];
  group.nodes.push_back(n);
  std::sort(group.nodes.begin(), group.nodes.end());
  group.result = node(n).outputs[0];
}

bool Partition::is_free(int n) const {
  const auto number = static_cast<std::size_t>(n);
  if (!kernels.needed(number) || group_of[number] >= 0 || node(n).op == nullptr) return false;
  const std::vector<ValueId>& outputs = node(n).outputs;
  for (std::size_t o = 1; o < outputs.size(); ++o)
    if (outputs[o] != kNoValue && uses.is_used(outputs[o])) return false;
  return true;
}

std::vector<Group> make_groups(DeviceKernels& kernels) {
  Partition partition(kernels);
  group_kernels(partition);
  group_expressions(partition);
  std::vector<Group>& groups = partition.groups;
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.nodes.back() < b.nodes.back(); });
  return std::move(groups);
}

}  // namespace rewright::planning
