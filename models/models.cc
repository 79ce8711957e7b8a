#include "models/models.h"

#include "models/networks.h"

namespace rewright::models {

std::span<const Model> models() {
  static constexpr Model kModels[] = {
      {"resnet50", "He et al., 2016: residual network of 50 layers, 224x224", build_resnet50},
      {"resnext50", "Xie et al., 2017: 32 groups of width 4, 224x224", build_resnext50},
      {"inception_v3", "Szegedy et al., 2016, 299x299", build_inception_v3},
      {"inception_block", "the first of Inception-v3's blocks, 192 channels, 35x35", build_inception_block},
      {"squeezenet", "Iandola et al., 2016: version 1.0, 224x224", build_squeezenet},
      {"mobilenet_v2", "Sandler et al., 2018: inverted residuals, 224x224", build_mobilenet_v2},
      {"densenet121", "Huang et al., 2017, 224x224", build_densenet121},
      {"efficientnet_b0", "Tan and Le, 2019: squeeze-and-excitation, SiLU, 224x224", build_efficientnet_b0},
      {"nasnet_a", "Zoph et al., 2018: NASNet-A, 4 cells a stage, 44 filters, 224x224", build_nasnet_a},
      {"nasrnn", "Zoph and Le, 2017: the found recurrent cell, 5 steps of width 512", build_nasrnn},
      {"bert_base", "Devlin et al., 2019: 12 layers of width 768, 128 tokens", build_bert_base},
      {"bert_layer", "one of BERT's layers, 128 tokens", build_bert_layer},
      {"gpt2", "Radford et al., 2019: 12 layers of width 768, 64 tokens", build_gpt2},
      {"mobileone_s0", "Vasu et al., 2023: training form with 4 branches, 224x224", build_mobileone_s0},
      {"repvgg_a0", "Ding et al., 2021: training form, 224x224", build_repvgg_a0},
      {"lora", "Hu et al., 2022: 8 products with adapters of rank 16, width 768, 64 rows", build_lora},
  };
  return kModels;
}

Graph build_model(std::string_view name, std::uint64_t seed) {
  std::string names;
  for (const Model& m : models()) {
    if (m.name == name) return m.build(seed);
    names += (names.empty() ? "" : ", ") + std::string(m.name);
  }
  throw Error(ErrorCode::kUsage, "there is no model \"" + std::string(name) + "\"", {}, "there are " + names);
}

}  // namespace rewright::models
