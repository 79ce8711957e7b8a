// Options of processes' exchange of gradients, and of the tensors that they partition.
#pragma once

#include <cstddef>

#include "distribution/all_reduce.h"

namespace rewright::training {

struct ExchangeOptions {
  AllReduce all_reduce = {};
  // Shards are added in the order of their numbers: the bits are then the same for any number of processes, and `all_reduce` is
  // not used.
  bool in_order = false;
  // Gradients are exchanged in buckets of at least this many bytes. 0: one bucket for each type.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  DataType gradients = DataType::kFloat;  // the type in which float gradients are sent: float, float16 or bfloat16
  // The stage of ZeRO (Rajbhandari et al., SC 2020): which tensors are partitioned over processes. 0: none; 1: optimizer
  // states; 2: gradients as well; 3: parameters as well.
  int zero = 0;
};

}  // namespace rewright::training
