// How processes exchange the gradients of a step, and which tensors they share out among each other.
#pragma once

#include <cstddef>

#include "distribution/all_reduce.h"

namespace rewright::training {

struct ExchangeOptions {
  AllReduce all_reduce = {};
  // Shards are added in the order of their numbers, which gives the same bits for any number of processes; `all_reduce` is then
  // not used.
  bool in_order = false;
  // Gradients are exchanged in buckets; a bucket is complete once it holds this many bytes. 0: one bucket for each type.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  DataType gradients = DataType::kFloat;  // the type in which float gradients travel: float, float16 or bfloat16
  // The stage of ZeRO (Rajbhandari et al., SC 2020). Each process holds only a part of: 1: the optimizer's states, 2: gradients
  // as well, 3: parameters as well. 0: everything is whole in every process.
  int zero = 0;
};

}  // namespace rewright::training
