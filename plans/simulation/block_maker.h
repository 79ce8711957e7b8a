// Makes the tasks of a block.
//
//   BlockMaker block(machine, 7);
//   const TaskName a = block.compute("dense", {0, 1, 2, 3}, operations, bytes, {});
//   const std::vector<Wait> sum = block.collective("gradient", {CollectiveKind::kAllReduce, {{0, 1, 2, 3}}, 4e6}, {a});
//   block.compute("update", {0, 1, 2, 3}, operations, bytes, sum);
//   simulation.set_block(7, block.take());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/namespaces.h"
#include "plans/machines/machine.h"
#include "plans/simulation/price.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

// A task that others wait for. With devices: tasks that have none of them do not.
struct Wait {
  Wait(TaskName name, Devices those = {}) : task(name), devices(std::move(those)) {}  // NOLINT(google-explicit-constructor)
  TaskName task;
  Devices devices;
};
using Waits = std::vector<Wait>;

// The tasks that the messages of an exchange become.
enum class ExchangeDetail {
  kPriced,    // one task for all devices, of the time that price() gives
  kMessages,  // a task a message: processes may begin and end at other times than others
  kExact,     // priced if that is exact while the links are not shared with other exchanges, else a task a message
};

// Work is in the machine's units: operations, bytes, seconds. Devices may come in any order.
class BlockMaker {
 public:
  BlockMaker(const Machine& machine, std::uint32_t number) : machine_(machine), number_(number) {}

  // In the queues for computing of all these devices at the same time: at the machine's rates, or for so long.
  TaskName compute(std::string label, Devices devices, double operations, double bytes, const Waits& after);
  TaskName compute_for(std::string label, Devices devices, double seconds, const Waits& after);

  // Point to point, in the queues for exchanges of both.
  TaskName send(std::string label, std::uint32_t from, std::uint32_t to, double bytes, const Waits& after);

  // Returns what tasks wait for that need the results. Where nothing is to be sent, this is `after`.
  Waits collective(const std::string& label, const Collective& collective, const Waits& after,
                   ExchangeDetail detail = ExchangeDetail::kPriced);
  // Messages between devices, in rounds: all those of neighbours (halos) are one round. Beside them an exchange takes the
  // machine's exchange_seconds() before they begin, and computing waits for it unless exchanges_beside().
  Waits exchange(const std::string& label, const Schedule& schedule, const Waits& after,
                 ExchangeDetail detail = ExchangeDetail::kPriced);

  // See Buffer.
  void buffer(double bytes, Devices devices, std::optional<TaskName> from, std::vector<TaskName> until);

  Block take() { return std::move(block_); }

 private:
  TaskName add(Task task, const Waits& after);
  void put_on_route(const Message& m, Task& task) const;
  Waits priced(const std::string& label, const ExchangePrice& price, const Schedule& schedule, const Waits& after);
  // The queue of an exchange.
  DeviceQueue exchange_queue() const { return machine_.exchanges_beside() ? DeviceQueue::kExchange : DeviceQueue::kBoth; }
  Waits messages(const std::string& label, const Schedule& schedule, const Waits& after);

  const Machine& machine_;
  std::uint32_t number_;
  Block block_;
};

}  // namespace rewright::plans
