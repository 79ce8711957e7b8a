// Times of the messages of a machine's processes, for the search of a plan.
#pragma once

#include <cstddef>

#include "distribution/tensor_exchange.h"
#include "plans/machines/machine.h"
#include "plans/partition/partition.h"

namespace rewright::runtime {

// The slowest of the messages between neighbours in a ring of every `stride`-th device; the fastest, for a bound.
void set_links(const plans::Machine& machine, std::size_t stride, std::size_t count, plans::PartitionOptions& options,
               bool fastest = false);

// The exchanges of so many groups of processes that go in pairs: of the processes within each, or `across` of those of one
// number in all groups.
distribution::PairLimits pairs_among(const plans::Machine& machine, std::size_t groups, bool across);

// The factor by which a byte takes longer where all of these processes exchange with each other than in a message between
// neighbours: those of a node share its links.
double all_to_all_share(const plans::Machine& machine, std::size_t groups, bool across, const plans::PartitionOptions& links);

}  // namespace rewright::runtime
