// The model behind a LanguageModel, and the cache of keys and values of sequences that it has read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/language/config.h"
#include "api/language/language_model.h"
#include "expressions/tensor.h"
#include "graph/graph.h"
#include "runtime/device_tensor.h"
#include "runtime/session.h"

namespace rewright::api {

// The keys and values of a batch of sequences, and the states of layers that are convolutions.
//
// Its capacity exceeds what is filled if the model allows that (LanguageConfig::cache_is_shared). Then a batch may have
// sequences of different lengths, shapes seldom change between steps, so that plans are used again, and sessions write in
// place. Otherwise the cache has one position for each token. If the model runs on a GPU, the cache stays in its memory.
class Cache {
 public:
  explicit Cache(std::size_t sequences) : filled_(sequences, 0) {}

 private:
  friend class Decoder;
  std::vector<std::size_t> filled_;  // positions of each sequence
  std::size_t room_ = 0;             // positions that there are entries for
  // For each input of the cache: [sequences, heads, room, head size]; of a convolution [sequences, channels, its state's
  // length].
  std::vector<PlacedTensor> entries_;
  // On a GPU, where the entries were before the last step: the next one writes there. So two places take turns, for which the
  // session keeps recordings.
  std::vector<PlacedTensor> spare_;
  bool is_broken_ = false;  // a run failed and the entries are lost
};

class Decoder {
 public:
  Decoder(const std::filesystem::path& folder, const std::string& device, int threads);
  const LanguageConfig& config() const { return config_; }
  // May several sequences have one cache? Sequences of different lengths are filled up, which a convolution's state must not
  // be.
  bool runs_together() const { return config_.cache_is_shared && batch_is_open_ && config_.convolutions.empty(); }

  // Reads `tokens[s]` behind what sequence s of the cache has so far, and returns the logits behind the last of them:
  // [sequence][token]. If the sequences get different numbers of tokens, they must be the first ones. A sequence that gets none
  // has ended, and its logits mean nothing.
  std::vector<std::vector<float>> step(Cache& cache, std::span<const std::span<const std::int64_t>> tokens) const;

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  struct CacheTensor {
    std::size_t input = 0, output = 0;
    std::string result = {};  // the output's name
    DataType type = {};
    std::int64_t heads = 0, size = 0;  // of a state: its channels and length
    bool is_state = false;
    Sizes sizes(std::int64_t sequences, std::int64_t room) const {
      return is_state ? Sizes{sequences, heads, size} : Sizes{sequences, heads, room, size};
    }
  };
  std::size_t input_named(const Graph& graph, const std::string& name) const;
  std::size_t output_named(const Graph& graph, const std::string& name) const;
  void find_inputs(const Graph& graph);
  void find_cache(const Graph& graph);
  void add_to_cache(const Graph& graph, const std::string& past, const std::string& present, bool is_state);
  void require_complete(const Graph& graph) const;
  void make_room(Cache& cache, std::size_t positions) const;
  void prepare() const;
  Tensor mask(const Cache& cache, std::span<const std::span<const std::int64_t>> tokens, std::size_t length) const;
  std::vector<PlacedTensor> run(Cache& cache, std::vector<PlacedTensor> inputs) const;
  Tensor take_results(Cache& cache, std::vector<PlacedTensor>& results) const;

  LanguageConfig config_;
  std::size_t ids_ = kAbsent, mask_ = kAbsent, positions_ = kAbsent, rows_ = kAbsent, logits_ = kAbsent;  // inputs, an output
  std::size_t output_count_ = 0;
  DataType ids_type_{}, mask_type_{}, positions_type_{};
  bool batch_is_open_ = false;
  std::vector<CacheTensor> cache_;
  std::unique_ptr<Session> session_;
  // Null unless the session runs on a GPU: the session itself, and the GPU's memory.
  DeviceSession* on_device_ = nullptr;
  const MemoryOfDevice* memory_ = nullptr;
};

}  // namespace rewright::api
