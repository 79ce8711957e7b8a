// Rewright for C++: optimize ONNX models and run them. A thin layer over the C interface (rewright_c.h), so that a program
// needs no other header and keeps working with later versions of the library. C++17.
//
//   const rewright::Model model = rewright::Model::read("model.onnx");
//   const rewright::Result result = rewright::optimize(model, {{"device", "cpu"}, {"budget", "10s"}});
//   result.model().write("faster.onnx");
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rewright_c.h"

namespace rewright {

// A failure: what() is what went wrong; where (a file, a node, an input) and what to do about it may be empty.
class Failure : public std::runtime_error {
 public:
  explicit Failure(rewright_status status)
      : std::runtime_error(rewright_error_text()),
        status_(status),
        where_(rewright_error_where()),
        hint_(rewright_error_hint()) {}
  rewright_status status() const { return status_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

 private:
  rewright_status status_;
  std::string where_, hint_;
};

inline void check(rewright_status status) {
  if (status != REWRIGHT_OK) throw Failure(status);
}

struct ValueInfo {
  std::string name;
  std::int32_t type = 0;  // of the elements, as ONNX's TensorProto numbers them
  bool rank_known = true;
  std::vector<std::int64_t> sizes;  // -1 where one is open
  std::vector<std::string> size_names;
};

// A tensor in row-major order that owns its elements.
struct Array {
  std::int32_t type = 1;
  std::vector<std::int64_t> sizes;
  std::vector<unsigned char> bytes;

  template <class T>
  static Array of(std::int32_t type, std::vector<std::int64_t> sizes, const std::vector<T>& elements) {
    Array array{type, std::move(sizes), std::vector<unsigned char>(elements.size() * sizeof(T))};
    if (!elements.empty()) std::memcpy(array.bytes.data(), elements.data(), array.bytes.size());
    return array;
  }
  static Array floats(std::vector<std::int64_t> sizes, const std::vector<float>& elements) {
    return of(1, std::move(sizes), elements);
  }
  template <class T>
  std::vector<T> elements() const {
    std::vector<T> result(bytes.size() / sizeof(T));
    if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
    return result;
  }
};

// Copies share one model, which does not change.
class Model {
 public:
  static Model read(const std::string& file) {
    rewright_model* model = nullptr;
    check(rewright_model_read(file.c_str(), &model));
    return Model(model);
  }
  static Model parse(const std::string& bytes, const std::string& name = "model") {
    rewright_model* model = nullptr;
    check(rewright_model_parse(bytes.data(), bytes.size(), name.c_str(), &model));
    return Model(model);
  }
  void write(const std::string& file) const { check(rewright_model_write(get(), file.c_str())); }
  std::string serialize() const {
    void* bytes = nullptr;
    std::size_t size = 0;
    check(rewright_model_serialize(get(), &bytes, &size));
    const std::unique_ptr<void, decltype(&rewright_bytes_free)> owner(bytes, rewright_bytes_free);
    return {static_cast<const char*>(bytes), size};
  }
  std::vector<ValueInfo> inputs() const { return values(rewright_model_input_count(get()), rewright_model_input); }
  std::vector<ValueInfo> outputs() const { return values(rewright_model_output_count(get()), rewright_model_output); }
  const rewright_model* get() const { return model_.get(); }

 private:
  friend class Result;
  explicit Model(rewright_model* model) : model_(model, rewright_model_free) {}
  explicit Model(std::shared_ptr<const rewright_model> model) : model_(std::move(model)) {}

  template <class Get>
  std::vector<ValueInfo> values(std::size_t count, Get describe) const {
    std::vector<ValueInfo> result;
    for (std::size_t i = 0; i < count; ++i) {
      rewright_value value;
      check(describe(get(), i, &value));
      ValueInfo& info = result.emplace_back();
      info.name = value.name;
      info.type = value.type;
      info.rank_known = value.rank >= 0;
      for (std::int32_t a = 0; a < value.rank; ++a) {
        info.sizes.push_back(value.sizes[a]);
        info.size_names.emplace_back(value.size_names[a]);
      }
    }
    return result;
  }

  std::shared_ptr<const rewright_model> model_;
};

class Result {
 public:
  explicit Result(rewright_result* result) : result_(result, rewright_result_free) {}
  Model model() const { return Model(std::shared_ptr<const rewright_model>(result_, rewright_result_model(result_.get()))); }
  double speedup() const { return rewright_result_speedup(result_.get()); }  // measured; 1 where nothing was
  std::string report() const { return rewright_result_report(result_.get()); }
  std::string certificate() const { return rewright_result_certificate(result_.get()); }

 private:
  std::shared_ptr<rewright_result> result_;
};

// Told how far the work is; false ends the search with the best so far. It must not throw.
using Progress = std::function<bool(const std::string& stage, double fraction, double predicted_gain)>;

// Options as `rewright optimize --help` lists them, without the dashes; flags are "true" or "false".
inline Result optimize(const Model& model, std::initializer_list<std::pair<std::string, std::string>> options = {},
                       const Progress& progress = {}) {
  rewright_options* made = nullptr;
  check(rewright_options_create(&made));
  const std::unique_ptr<rewright_options, decltype(&rewright_options_free)> owner(made, rewright_options_free);
  for (const auto& [name, value] : options) check(rewright_options_set(made, name.c_str(), value.c_str()));
  if (progress)
    check(rewright_options_set_progress(
        made,
        [](const char* stage, double fraction, double gain, void* user) {
          return (*static_cast<const Progress*>(user))(stage, fraction, gain) ? 0 : 1;
        },
        const_cast<Progress*>(&progress)));
  rewright_result* result = nullptr;
  check(rewright_optimize(model.get(), made, &result));
  return Result(result);
}

// May be run by several threads at once.
class Runner {
 public:
  // `device`: cpu, cuda, cuda:N or reference. `threads`: 0 for all cores.
  explicit Runner(const Model& model, const std::string& device = "cpu", int threads = 0)
      : outputs_(rewright_model_output_count(model.get())) {
    rewright_session* session = nullptr;
    check(rewright_session_create(model.get(), device.c_str(), threads, &session));
    session_.reset(session, rewright_session_free);
  }
  // Inputs and outputs in the order of the model's.
  std::vector<Array> run(const std::vector<Array>& inputs) const {
    std::vector<rewright_tensor> given, found(outputs_);
    for (const Array& array : inputs)
      given.push_back({array.type, static_cast<std::int32_t>(array.sizes.size()), array.sizes.data(),
                       const_cast<unsigned char*>(array.bytes.data()), array.bytes.size()});
    check(rewright_session_run(session_.get(), given.data(), given.size(), found.data(), found.size()));
    const Outputs owner{found};
    std::vector<Array> result;
    for (const rewright_tensor& tensor : found) {
      const auto* data = static_cast<const unsigned char*>(tensor.data);
      result.push_back({tensor.type, {tensor.sizes, tensor.sizes + tensor.rank}, {data, data + tensor.bytes}});
    }
    return result;
  }

 private:
  struct Outputs {
    std::vector<rewright_tensor>& tensors;
    ~Outputs() {
      for (rewright_tensor& tensor : tensors) rewright_tensor_free(&tensor);
    }
  };
  std::shared_ptr<rewright_session> session_;
  std::size_t outputs_;
};

}  // namespace rewright
