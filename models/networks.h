// The builders behind models.h, one file for each family.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace rewright::models {

Graph build_resnet50(std::uint64_t seed);
Graph build_resnext50(std::uint64_t seed);
Graph build_squeezenet(std::uint64_t seed);
Graph build_mobilenet_v2(std::uint64_t seed);
Graph build_densenet121(std::uint64_t seed);
Graph build_efficientnet_b0(std::uint64_t seed);
Graph build_inception_v3(std::uint64_t seed);
Graph build_inception_block(std::uint64_t seed);
Graph build_nasnet_a(std::uint64_t seed);
Graph build_nasrnn(std::uint64_t seed);
Graph build_bert_base(std::uint64_t seed);
Graph build_bert_layer(std::uint64_t seed);
Graph build_gpt2(std::uint64_t seed);
Graph build_lora(std::uint64_t seed);
Graph build_mobileone_s0(std::uint64_t seed);
Graph build_repvgg_a0(std::uint64_t seed);

}  // namespace rewright::models
