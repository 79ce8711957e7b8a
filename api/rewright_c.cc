#include "api/rewright_c.h"

#include <cstring>
#include <deque>
#include <new>

#include "api/devices.h"
#include "api/optimization.h"
#include "graph/onnx.h"
#include "runtime/mixed.h"

using rewright::Error;
using rewright::ErrorCode;

namespace {

struct Failure {
  std::string text, where, hint;
};
thread_local Failure last_failure;

rewright_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return REWRIGHT_USAGE;
    case ErrorCode::kBadInput:
      return REWRIGHT_BAD_INPUT;
    case ErrorCode::kUnsupported:
      return REWRIGHT_UNSUPPORTED;
    case ErrorCode::kMissing:
      return REWRIGHT_MISSING;
    case ErrorCode::kCancelled:
      return REWRIGHT_CANCELLED;
  }
  return REWRIGHT_MISSING;
}

// No exception crosses the border.
template <class Work>
rewright_status guarded(const Work& work) noexcept {
  try {
    try {
      work();
      return REWRIGHT_OK;
    } catch (const Error& error) {
      last_failure = {error.text(), error.where(), error.hint()};
      return status_of(error.code());
    } catch (const std::bad_alloc&) {
      last_failure = {"out of memory", {}, {}};
    } catch (const std::exception& error) {
      last_failure = {error.what(), {}, {}};
    }
  } catch (...) {  // there is no memory even for this
  }
  return REWRIGHT_MISSING;
}

template <class T>
T& required(T* pointer, const char* what) {
  if (!pointer) throw Error(ErrorCode::kUsage, std::string(what) + " is null");
  return *pointer;
}

// What rewright_value points at.
struct Described {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::vector<const char*> name_pointers;
  rewright_value value{};
};

void describe(std::deque<Described>& all, const std::string& name, const rewright::TensorType& type, bool shape_known) {
  Described& d = all.emplace_back();
  d.name = name;
  d.value = {d.name.c_str(), static_cast<std::int32_t>(type.type), -1, nullptr, nullptr};
  if (!shape_known) return;
  for (const rewright::Index& size : type.shape) {
    d.sizes.push_back(size.constant().value_or(-1));
    d.names.push_back(size.constant() ? std::string() : size.to_string());
  }
  for (const std::string& text : d.names) d.name_pointers.push_back(text.c_str());
  d.value.rank = static_cast<std::int32_t>(d.sizes.size());
  d.value.sizes = d.sizes.data();
  d.value.size_names = d.name_pointers.data();
}

}  // namespace

struct rewright_model {
  explicit rewright_model(rewright::Graph g, std::string n) : graph(std::move(g)), name(std::move(n)) {
    for (const rewright::ValueId id : graph.inputs())
      describe(inputs, graph.value(id).name, graph.value(id).type, graph.value(id).shape_known);
    for (const rewright::GraphOutput& output : graph.outputs()) describe(outputs, output.name, output.type, output.shape_known);
  }
  rewright::Graph graph;
  std::string name;
  std::deque<Described> inputs, outputs;  // which do not move
};

struct rewright_options {
  rewright::OptimizationRequest request;
  rewright_progress progress = nullptr;
  void* user = nullptr;
};

struct rewright_result {
  rewright_model model;
  double speedup;
  std::string report, certificate;
};

struct rewright_session {
  std::unique_ptr<rewright::Session> session;
  std::size_t inputs, outputs;
};

extern "C" {

int rewright_abi_version(void) { return REWRIGHT_ABI_VERSION; }
const char* rewright_version(void) { return REWRIGHT_VERSION; }
const char* rewright_error_text(void) { return last_failure.text.c_str(); }
const char* rewright_error_where(void) { return last_failure.where.c_str(); }
const char* rewright_error_hint(void) { return last_failure.hint.c_str(); }

rewright_status rewright_model_read(const char* file, rewright_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    const std::string name = &required(file, "file");
    *model = new rewright_model(rewright::import_onnx(name), name);
  });
}

rewright_status rewright_model_parse(const void* bytes, size_t size, const char* name, rewright_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    const std::string_view text(&required(static_cast<const char*>(bytes), "bytes"), size);
    const std::string called = name ? name : "model";
    *model = new rewright_model(rewright::import_onnx_bytes(text, called), called);
  });
}

rewright_status rewright_model_write(const rewright_model* model, const char* file) {
  return guarded([&] { rewright::export_onnx(required(model, "model").graph, &required(file, "file")); });
}

rewright_status rewright_model_serialize(const rewright_model* model, void** bytes, size_t* size) {
  return guarded([&] {
    required(bytes, "bytes") = nullptr;
    required(size, "size") = 0;
    const std::string text = rewright::export_onnx_bytes(required(model, "model").graph);
    *bytes = std::malloc(std::max<std::size_t>(text.size(), 1));
    if (!*bytes) throw std::bad_alloc();
    std::memcpy(*bytes, text.data(), text.size());
    *size = text.size();
  });
}

void rewright_bytes_free(void* bytes) { std::free(bytes); }
void rewright_model_free(rewright_model* model) { delete model; }

size_t rewright_model_input_count(const rewright_model* model) { return model ? model->inputs.size() : 0; }
size_t rewright_model_output_count(const rewright_model* model) { return model ? model->outputs.size() : 0; }

static rewright_status value_of(const std::deque<Described>* all, size_t i, rewright_value* value) {
  return guarded([&] {
    const auto& values = required(all, "model");
    if (i >= values.size()) throw Error(ErrorCode::kUsage, "there are only " + std::to_string(values.size()) + " of them");
    required(value, "value") = values[i].value;
  });
}

rewright_status rewright_model_input(const rewright_model* model, size_t i, rewright_value* value) {
  return value_of(model ? &model->inputs : nullptr, i, value);
}

rewright_status rewright_model_output(const rewright_model* model, size_t i, rewright_value* value) {
  return value_of(model ? &model->outputs : nullptr, i, value);
}

rewright_status rewright_options_create(rewright_options** options) {
  return guarded([&] {
    required(options, "options") = nullptr;
    *options = new rewright_options;
  });
}

rewright_status rewright_options_set(rewright_options* options, const char* name, const char* value) {
  return guarded(
      [&] { rewright::set_option(required(options, "options").request, &required(name, "name"), &required(value, "value")); });
}

rewright_status rewright_options_set_progress(rewright_options* options, rewright_progress progress, void* user) {
  return guarded([&] {
    required(options, "options").progress = progress;
    options->user = user;
  });
}

void rewright_options_free(rewright_options* options) { delete options; }

rewright_status rewright_optimize(const rewright_model* model, const rewright_options* options, rewright_result** result) {
  return guarded([&] {
    required(result, "result") = nullptr;
    const rewright_model& given = required(model, "model");
    const rewright_options none;
    const rewright_options& asked = options ? *options : none;
    std::stop_source stop;
    rewright::Optimization done = rewright::run_optimization(
        given.graph, asked.request, given.name, given.name, false, stop.get_token(), [&](const rewright::OptimizeProgress& p) {
          if (asked.progress && asked.progress(p.stage.c_str(), p.fraction, p.predicted_gain, asked.user) != 0)
            stop.request_stop();
        });
    *result = new rewright_result{rewright_model(std::move(done.result.graph), given.name), done.result.report.speedup,
                                  std::move(done.facts), rewright::to_json(done.result.certificate)};
  });
}

const rewright_model* rewright_result_model(const rewright_result* result) { return result ? &result->model : nullptr; }
double rewright_result_speedup(const rewright_result* result) { return result ? result->speedup : 1; }
const char* rewright_result_report(const rewright_result* result) { return result ? result->report.c_str() : ""; }
const char* rewright_result_certificate(const rewright_result* result) { return result ? result->certificate.c_str() : ""; }
void rewright_result_free(rewright_result* result) { delete result; }

rewright_status rewright_session_create(const rewright_model* model, const char* device, int threads,
                                        rewright_session** session) {
  return guarded([&] {
    required(session, "session") = nullptr;
    const rewright::Graph& graph = required(model, "model").graph;
    rewright::SessionOptions options;
    options.threads = rewright::usable_threads(threads);
    *session = new rewright_session{rewright::prepare_session(rewright::find_backend(device ? device : "cpu"), graph, options),
                                    graph.inputs().size(), graph.outputs().size()};
  });
}

rewright_status rewright_session_run(rewright_session* session, const rewright_tensor* inputs, size_t input_count,
                                     rewright_tensor* outputs, size_t output_count) {
  return guarded([&] {
    rewright_session& s = required(session, "session");
    if (input_count != s.inputs || output_count != s.outputs)
      throw Error(ErrorCode::kUsage, "the model has " + std::to_string(s.inputs) + " inputs and " + std::to_string(s.outputs) +
                                         " outputs, not " + std::to_string(input_count) + " and " +
                                         std::to_string(output_count));
    std::vector<rewright::Tensor> tensors;
    for (std::size_t i = 0; i < input_count; ++i) {
      const rewright_tensor& given = required(inputs + i, "inputs");
      const auto bad = [&](const std::string& what) { return Error(ErrorCode::kBadInput, what, "input " + std::to_string(i)); };
      const auto type = static_cast<rewright::DataType>(given.type);
      if (rewright::byte_size(type) == 0) throw bad("element type " + std::to_string(given.type) + " cannot be given here");
      if (given.rank < 0 || (given.rank > 0 && !given.sizes)) throw bad("its sizes are not given");
      rewright::Sizes sizes(given.sizes, given.sizes + given.rank);
      const std::size_t needed = static_cast<std::size_t>(rewright::element_count(sizes)) * rewright::byte_size(type);
      if (needed != given.bytes)
        throw bad("its sizes need " + std::to_string(needed) + " bytes, it has " + std::to_string(given.bytes));
      if (needed > 0 && !given.data) throw bad("its data is null");
      // The caller's memory is read in place; nothing of it is kept after the run.
      tensors.emplace_back(type, std::move(sizes), std::shared_ptr<const void>(), static_cast<const std::byte*>(given.data));
    }
    if (output_count > 0) required(outputs, "outputs");
    const std::vector<rewright::Tensor> results = s.session->run(tensors);
    for (std::size_t i = 0; i < output_count; ++i) outputs[i] = {};
    try {
      for (std::size_t i = 0; i < output_count; ++i) {
        const rewright::Tensor& result = results.at(i);
        if (rewright::byte_size(result.type()) == 0)
          throw Error(ErrorCode::kUnsupported, "its elements have no fixed size", "output " + std::to_string(i));
        // One piece of memory: the sizes, then the data, aligned.
        constexpr std::size_t kAlignment = 64;
        const std::size_t head = (result.sizes().size() * sizeof(std::int64_t) + kAlignment - 1) / kAlignment * kAlignment;
        const std::size_t all = (head + result.byte_count() + kAlignment) / kAlignment * kAlignment;
        auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, all));
        if (!memory) throw std::bad_alloc();
        if (!result.sizes().empty()) std::memcpy(memory, result.sizes().data(), result.sizes().size() * sizeof(std::int64_t));
        if (result.byte_count() > 0) std::memcpy(memory + head, result.bytes().data(), result.byte_count());
        outputs[i] = {static_cast<std::int32_t>(result.type()), static_cast<std::int32_t>(result.sizes().size()),
                      reinterpret_cast<const std::int64_t*>(memory), memory + head, result.byte_count()};
      }
    } catch (...) {
      for (std::size_t i = 0; i < output_count; ++i) rewright_tensor_free(&outputs[i]);
      throw;
    }
  });
}

void rewright_tensor_free(rewright_tensor* tensor) {
  if (!tensor) return;
  std::free(const_cast<std::int64_t*>(tensor->sizes));
  *tensor = {};
}

void rewright_session_free(rewright_session* session) { delete session; }

}  // extern "C"
