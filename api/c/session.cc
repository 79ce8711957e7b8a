#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "api/c/handles.h"
#include "api/c/tensors.h"
#include "api/devices.h"
#include "graph/onnx/import/overridable.h"
#include "runtime/checked_kernels.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"

using rewright::Error;
using rewright::ErrorCode;
using rewright::Tensor;
using rewright::c::given_tensor;
using rewright::c::guarded;
using rewright::c::position;
using rewright::c::required;

namespace {

// One piece of memory: the sizes, then the data, aligned.
rewright_tensor copy_of(const Tensor& result, const std::string& where) {
  if (rewright::byte_size(result.type()) == 0) throw Error(ErrorCode::kUnsupported, "its elements have no fixed size", where);
  constexpr std::size_t kAlignment = 64;
  const std::size_t head = (result.sizes().size() * sizeof(std::int64_t) + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t all = (head + result.byte_count() + kAlignment) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, all));
  if (!memory) throw std::bad_alloc();
  if (!result.sizes().empty()) std::memcpy(memory, result.sizes().data(), result.sizes().size() * sizeof(std::int64_t));
  if (result.byte_count() > 0) std::memcpy(memory + head, result.bytes().data(), result.byte_count());
  return {static_cast<std::int32_t>(result.type()), static_cast<std::int32_t>(result.sizes().size()),
          reinterpret_cast<const std::int64_t*>(memory), memory + head, result.byte_count()};
}

// `wanted`: positions of the model's outputs, one for each of `outputs`.
void run(rewright_session& session, const std::vector<Tensor>& inputs, const std::vector<std::size_t>& wanted,
         rewright_tensor* outputs) {
  const std::vector<Tensor> results = session.session->run(inputs);
  for (std::size_t i = 0; i < wanted.size(); ++i) outputs[i] = {};
  try {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      outputs[i] = copy_of(results.at(wanted[i]), "output " + session.outputs[wanted[i]]);
  } catch (...) {
    for (std::size_t i = 0; i < wanted.size(); ++i) rewright_tensor_free(&outputs[i]);
    throw;
  }
}

std::unique_ptr<rewright_session> session_of(const rewright::graph::Graph& graph, const std::string& device, int threads,
                                             bool check) {
  rewright::runtime::SessionOptions options;
  options.threads = rewright::runtime::usable_threads(threads);
  options.checkpoint = rewright::runtime::run_checkpoint;
  auto made = std::make_unique<rewright_session>();
  if (check) options.check_kernels.emplace();
  made->session = rewright::runtime::prepare_session(rewright::api::find_backend(device), graph, options);
  for (const rewright::graph::ValueId id : graph.inputs()) made->inputs.push_back(graph.value(id).name);
  for (const rewright::graph::GraphOutput& output : graph.outputs()) made->outputs.push_back(output.name);
  for (const rewright::graph::Declaration& weight : rewright::graph::overridable_initializers(graph))
    made->overridable.insert(weight.name);
  if (!made->overridable.empty())
    made->with = [graph, device, threads, check](const std::set<std::string>& names) {
      return session_of(rewright::graph::with_inputs(graph, names), device, threads, check);
    };
  return made;
}

rewright_status create(const rewright_model* model, const char* device, int threads, bool check, rewright_session** session) {
  return guarded([&] {
    required(session, "session") = nullptr;
    const rewright::graph::Graph graph = rewright::graph::with_defaults(required(model, "model").graph);
    *session = session_of(graph, device ? device : "cpu", threads, check).release();
  });
}

// Adds the session's new warnings to those kept. Returns number `number` of them (null if there are fewer) and their count.
std::pair<const char*, std::size_t> warning_of(rewright_session* session, std::size_t number) {
  std::pair<const char*, std::size_t> result{nullptr, 0};
  guarded([&] {
    rewright_session& s = required(session, "session");
    const std::vector<std::string> now = s.session->warnings();
    const std::lock_guard lock(s.mutex);
    for (const std::string& warning : now)
      if (std::find(s.warnings.begin(), s.warnings.end(), warning) == s.warnings.end()) s.warnings.push_back(warning);
    result = {number < s.warnings.size() ? s.warnings[number].c_str() : nullptr, s.warnings.size()};
  });
  return result;
}

void run_in_order(rewright_session* session, const rewright_tensor* inputs, std::size_t input_count, rewright_tensor* outputs,
                  std::size_t output_count) {
  rewright_session& s = required(session, "session");
  if (input_count != s.inputs.size() || output_count != s.outputs.size())
    throw Error(ErrorCode::kUsage, "the model has " + std::to_string(s.inputs.size()) + " inputs and " +
                                       std::to_string(s.outputs.size()) + " outputs, not " + std::to_string(input_count) +
                                       " and " + std::to_string(output_count));
  if (input_count > 0) required(inputs, "inputs");
  if (output_count > 0) required(outputs, "outputs");
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < input_count; ++i) tensors.push_back(given_tensor(inputs[i], "input " + s.inputs[i]));
  std::vector<std::size_t> wanted(output_count);
  for (std::size_t i = 0; i < output_count; ++i) wanted[i] = i;
  run(s, tensors, wanted, outputs);
}

// The session in which those weights that are given are inputs.
rewright_session& session_for(rewright_session& session, std::span<const char* const> given) {
  std::set<std::string> names;
  for (const char* name : given)
    if (name != nullptr && session.overridable.contains(name)) names.insert(name);
  if (names.empty()) return session;
  const std::lock_guard lock(session.mutex);
  std::unique_ptr<rewright_session>& other = session.with_inputs[names];
  if (!other) other = session.with(names);
  return *other;
}

}  // namespace

extern "C" {

rewright_status rewright_session_create(const rewright_model* model, const char* device, int threads,
                                        rewright_session** session) {
  return create(model, device, threads, false, session);
}

rewright_status rewright_session_create_checked(const rewright_model* model, const char* device, int threads,
                                                rewright_session** session) {
  return create(model, device, threads, true, session);
}

size_t rewright_session_warning_count(rewright_session* session) { return warning_of(session, 0).second; }

const char* rewright_session_warning(rewright_session* session, size_t number) { return warning_of(session, number).first; }

size_t rewright_session_checked_steps(rewright_session* session) {
  return session ? rewright::runtime::checked_kernels(*session->session).checked : 0;
}

rewright_status rewright_session_run(rewright_session* session, const rewright_tensor* inputs, size_t input_count,
                                     rewright_tensor* outputs, size_t output_count) {
  return guarded([&] { run_in_order(session, inputs, input_count, outputs, output_count); });
}

rewright_status rewright_session_run_until(rewright_session* session, const rewright_ending* ending,
                                           const rewright_tensor* inputs, size_t input_count, rewright_tensor* outputs,
                                           size_t output_count) {
  return guarded([&] {
    const rewright::graph::Checkpoint checkpoint = rewright::runtime::ends_when(required(ending, "ending").ended);
    checkpoint();
    const rewright::runtime::EndableRun endable(checkpoint);
    run_in_order(session, inputs, input_count, outputs, output_count);
  });
}

rewright_status rewright_ending_create(rewright_ending** ending) {
  return guarded([&] {
    required(ending, "ending") = nullptr;
    *ending = new rewright_ending;
  });
}

void rewright_ending_set(rewright_ending* ending, int ended) {
  if (ending) ending->ended = ended != 0;
}

void rewright_ending_free(rewright_ending* ending) { delete ending; }

rewright_status rewright_session_run_named(rewright_session* session, const char* const* input_names,
                                           const rewright_tensor* inputs, size_t input_count, const char* const* output_names,
                                           rewright_tensor* outputs, size_t output_count) {
  return guarded([&] {
    if (input_count > 0) required(input_names, "input_names"), required(inputs, "inputs");
    rewright_session& s = session_for(required(session, "session"), {input_names, input_count});
    if (output_count > 0) required(output_names, "output_names"), required(outputs, "outputs");
    std::vector<Tensor> tensors(s.inputs.size());
    std::set<std::size_t> given;
    for (std::size_t i = 0; i < input_count; ++i) {
      const std::size_t at = position(s.inputs, input_names[i], "input");
      if (!given.insert(at).second) throw Error(ErrorCode::kUsage, "is given twice", "input " + s.inputs[at]);
      tensors[at] = given_tensor(inputs[i], "input " + s.inputs[at]);
    }
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      if (!given.contains(i)) throw Error(ErrorCode::kUsage, "is not given", "input " + s.inputs[i]);
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < output_count; ++i) wanted.push_back(position(s.outputs, output_names[i], "output"));
    run(s, tensors, wanted, outputs);
  });
}

void rewright_tensor_free(rewright_tensor* tensor) {
  if (!tensor) return;
  std::free(const_cast<std::int64_t*>(tensor->sizes));
  *tensor = {};
}

void rewright_session_free(rewright_session* session) { delete session; }

}  // extern "C"
