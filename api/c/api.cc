// Versions, failures, models, optimization.
#include "api/c/handles.h"

#include <cstdlib>
#include <cstring>

#include "api/c/cost.h"
#include "api/rule_facts.h"
#include "api/versions.h"
#include "graph/onnx/onnx.h"
#include "rules/io.h"

using rewright::Error;
using rewright::ErrorCode;
using rewright::c::guarded;
using rewright::c::required;

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

rewright::graph::ImportOptions with_operators(const rewright_operators* operators) {
  rewright::graph::ImportOptions options;
  if (operators) options.foreign = std::make_shared<const rewright::operators::Procedures>(operators->procedures);
  return options;
}

rewright::graph::ExportOptions export_options(const rewright_model& model) {
  return model.is_rewritten ? rewright::graph::kRewritten : rewright::graph::ExportOptions();
}

}  // namespace

namespace rewright::c {

rewright_status keep_failure() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      last_failure = {error.text(), error.where(), error.hint()};
      return status_of(error.code());
    } catch (const std::bad_alloc&) {
      last_failure = {"out of memory", {}, {}};
    } catch (const std::exception& error) {
      last_failure = {error.what(), {}, {}};
    } catch (...) {
      last_failure = {"an exception of another kind", {}, {}};
    }
  } catch (...) {  // there is no memory even for this
  }
  return REWRIGHT_MISSING;
}

void describe_unknown(AllDescribed& all, const std::string& name, DataType type) {
  Described& d = all.emplace_back();
  d.name = name;
  d.value = {d.name.c_str(), static_cast<std::int32_t>(type), -1, nullptr, nullptr};
}

void describe(AllDescribed& all, const std::string& name, DataType type, std::vector<std::int64_t> sizes,
              std::vector<std::string> size_names) {
  describe_unknown(all, name, type);
  Described& d = all.back();
  d.sizes = std::move(sizes);
  d.names = std::move(size_names);
  for (const std::string& text : d.names) d.name_pointers.push_back(text.c_str());
  d.value.rank = static_cast<std::int32_t>(d.sizes.size());
  d.value.sizes = d.sizes.data();
  d.value.size_names = d.name_pointers.data();
}

void describe(AllDescribed& all, const std::string& name, const TensorType& type, bool shape_known) {
  if (!shape_known) return describe_unknown(all, name, type.type);
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const Index& size : type.shape) {
    sizes.push_back(size.constant().value_or(-1));
    names.push_back(size.constant() ? std::string() : size.to_string());
  }
  describe(all, name, type.type, std::move(sizes), std::move(names));
}

rewright_status value_of(const AllDescribed* all, std::size_t i, rewright_value* value) {
  return guarded([&] {
    const auto& values = required(all, "what was asked");
    if (i >= values.size()) throw Error(ErrorCode::kUsage, "there are only " + std::to_string(values.size()) + " of them");
    required(value, "value") = values[i].value;
  });
}

}  // namespace rewright::c

using rewright::c::value_of;

rewright_model::rewright_model(rewright::graph::Graph g, std::string n, bool rewritten)
    : graph(std::move(g)), name(std::move(n)), is_rewritten(rewritten) {
  for (const rewright::graph::ValueId id : graph.inputs())
    rewright::c::describe(inputs, graph.value(id).name, graph.value(id).type, graph.value(id).shape_known);
  for (const rewright::graph::GraphOutput& output : graph.outputs())
    rewright::c::describe(outputs, output.name, output.type, output.shape_known);
}

extern "C" {

int rewright_abi_version(void) { return REWRIGHT_ABI_VERSION; }
const char* rewright_version(void) { return REWRIGHT_VERSION; }
const char* rewright_library_versions(void) {
  static const std::string kText = rewright::api::library_versions();
  return kText.c_str();
}
const char* rewright_error_text(void) { return last_failure.text.c_str(); }
const char* rewright_error_where(void) { return last_failure.where.c_str(); }
const char* rewright_error_hint(void) { return last_failure.hint.c_str(); }

rewright_status rewright_model_read(const char* file, rewright_model** model) {
  return rewright_model_read_with(file, nullptr, model);
}

rewright_status rewright_model_read_with(const char* file, const rewright_operators* operators, rewright_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    const std::string name = &required(file, "file");
    *model = new rewright_model(rewright::graph::import_onnx(name, with_operators(operators)), name, false);
  });
}

rewright_status rewright_model_parse(const void* bytes, size_t size, const char* name, rewright_model** model) {
  return rewright_model_parse_with(bytes, size, name, nullptr, model);
}

rewright_status rewright_model_parse_with(const void* bytes, size_t size, const char* name, const rewright_operators* operators,
                                          rewright_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    const std::string_view text(&required(static_cast<const char*>(bytes), "bytes"), size);
    const std::string called = name ? name : "model";
    *model = new rewright_model(rewright::graph::import_onnx_bytes(text, called, with_operators(operators)), called, false);
  });
}

rewright_status rewright_model_write(const rewright_model* model, const char* file) {
  return guarded(
      [&] { rewright::graph::export_onnx(required(model, "model").graph, &required(file, "file"), export_options(*model)); });
}

rewright_status rewright_model_serialize(const rewright_model* model, void** bytes, size_t* size) {
  return guarded([&] {
    required(bytes, "bytes") = nullptr;
    required(size, "size") = 0;
    const std::string text = rewright::graph::export_onnx_bytes(required(model, "model").graph, export_options(*model));
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
  return guarded([&] {
    rewright::api::set_option(rewright::api::optimization_options(), required(options, "options").request,
                              &required(name, "name"), &required(value, "value"));
  });
}

rewright_status rewright_options_set_progress(rewright_options* options, rewright_progress progress, void* user) {
  return guarded([&] {
    required(options, "options").progress = progress;
    options->user = user;
  });
}

rewright_status rewright_options_add_rules(rewright_options* options, const void* bytes, size_t size, const char* name) {
  return guarded([&] {
    rewright_options& o = required(options, "options");
    const std::string_view text(&required(static_cast<const char*>(bytes), "bytes"), size);
    for (rewright::rules::Rule& rule : rewright::api::with_proofs(rewright::rules::read_rules(text, name ? name : "rules")))
      o.request.more_rules.push_back(std::move(rule));
  });
}

rewright_status rewright_options_set_cost(rewright_options* options, rewright_cost cost, void* user) {
  return guarded([&] { required(options, "options").request.price = rewright::c::price_by(cost, user); });
}

rewright_status rewright_options_set_page(rewright_options* options, int wanted) {
  return guarded([&] { required(options, "options").page = wanted != 0; });
}

void rewright_options_free(rewright_options* options) { delete options; }

rewright_status rewright_optimize(const rewright_model* model, const rewright_options* options, rewright_result** result) {
  return guarded([&] {
    required(result, "result") = nullptr;
    const rewright_model& given = required(model, "model");
    const rewright_options none;
    const rewright_options& asked = options ? *options : none;
    std::stop_source stop;
    rewright::api::Optimization done = rewright::api::run_optimization(
        given.graph, asked.request, given.name, given.name, asked.page, stop.get_token(),
        [&](const rewright::optimizer::OptimizeProgress& p) {
          if (asked.progress && asked.progress(p.stage.c_str(), p.fraction, p.predicted_gain, asked.user) != 0)
            stop.request_stop();
        });
    *result =
        new rewright_result{rewright_model(std::move(done.result.graph), given.name, true), done.result.report.speedup,
                            std::move(done.facts), rewright::optimizer::to_json(done.result.certificate), std::move(done.page)};
  });
}

const rewright_model* rewright_result_model(const rewright_result* result) { return result ? &result->model : nullptr; }
double rewright_result_speedup(const rewright_result* result) { return result ? result->speedup : 1; }
const char* rewright_result_report(const rewright_result* result) { return result ? result->report.c_str() : ""; }
const char* rewright_result_certificate(const rewright_result* result) { return result ? result->certificate.c_str() : ""; }
const char* rewright_result_page(const rewright_result* result) { return result ? result->page.c_str() : ""; }
void rewright_result_free(rewright_result* result) { delete result; }

}  // extern "C"
