#include "python/native/session.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "api/choices.h"
#include "api/devices.h"
#include "api/placed_run.h"
#include "graph/onnx/import/overridable.h"
#include "python/native/errors.h"
#include "python/native/graph.h"
#include "python/native/tensors.h"
#include "runtime/checked_kernels.h"
#include "runtime/cuda/running/device.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"
#include "runtime/parts.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

// Interned Python strings, so that they are not hashed again.
std::vector<nb::object> interned(const std::vector<Declaration>& values) {
  std::vector<nb::object> names;
  for (const Declaration& value : values) names.push_back(nb::steal(PyUnicode_InternFromString(value.name.c_str())));
  return names;
}

std::string joined(const std::vector<Declaration>& values) {
  std::string text;
  for (const Declaration& value : values) text += (text.empty() ? "\"" : ", \"") + value.name + "\"";
  return text.empty() ? "none" : text;
}

// The part of rewright.RunOptions that ends runs.
struct RunOptions {
  explicit RunOptions(const RunOptions* around) : outer(around) {}
  std::atomic<bool> terminate = false;
  const RunOptions* const outer;  // these also end the run; null: there are none
};

Checkpoint checkpoint_of(const RunOptions& options) {
  Checkpoint own = ends_when(options.terminate);
  if (options.outer == nullptr) return own;
  return [own = std::move(own), outer = checkpoint_of(*options.outer)] { own(), outer(); };
}

// Runs work without the GIL; flags of the options end it if they are rewright.RunOptions.
template <class Work>
auto endable(nb::handle options, const Work& work) {
  const bool can_end = nb::isinstance<RunOptions>(options);
  if (!can_end && !options.is_none()) throw nb::type_error("run_options: give a rewright.RunOptions, or None");
  const Checkpoint checkpoint = can_end ? checkpoint_of(nb::cast<const RunOptions&>(options)) : Checkpoint();
  const nb::gil_scoped_release release;
  return in_situation("run", [&] {
    if (!can_end) return work();
    checkpoint();
    const EndableRun run(checkpoint);
    return work();
  });
}

class PythonSession {
 public:
  PythonSession(const NamedGraph& graph, const std::string& device, SessionOptions options, MathClass math, bool check_kernels)
      : overridable_(rewright::graph::overridable_initializers(graph.graph)),
        inputs_(declared_inputs(graph.graph)),
        outputs_(declared_outputs(graph.graph)),
        description_(describe_model(graph.graph)),
        input_names_(interned(inputs_)),
        output_names_(interned(outputs_)),
        checks_kernels_(check_kernels) {
    const Backend& backend = find_backend(device, math);
    if (check_kernels) options.check_kernels.emplace();
    const Graph executed = executed_form(backend, graph.graph);
    const bool is_whole = is_compiled(executed);
    // A compiled plan allocates its results. The interpreter may return weights, inputs, or values that it keeps.
    returns_own_memory_ = is_whole && device != "reference";
    const auto is_tensor = [](const Declaration& value) { return value.is_tensor; };
    tensors_alone_ =
        std::all_of(inputs_.begin(), inputs_.end(), is_tensor) && std::all_of(outputs_.begin(), outputs_.end(), is_tensor);
    const Graph copy = graph.graph;
    options.checkpoint = run_checkpoint;
    if (!overridable_.empty())
      with_ = [copy, device, options, math, check_kernels](const std::set<std::string>& names) mutable {
        options.plan_cache.clear();  // a file serves only one plan
        return std::make_unique<PythonSession>(NamedGraph{with_inputs(copy, names), "the model"}, device, options, math,
                                               check_kernels);
      };
    const nb::gil_scoped_release release;
    session_ = prepare_session(backend, executed, options);
  }

  nb::object run(nb::handle names, nb::handle feeds, nb::handle run_options) {
    if (PythonSession* const other = overridden(feeds)) return other->run(names, feeds, run_options);
    std::vector<HeldValue> given = in_situation("argument", [&] { return given_inputs(feeds); });
    if (is_on_gpus(given)) return arrays_of(run_on_gpus(names, given, run_options, nb::none()));
    const std::vector<std::size_t> wanted = wanted_outputs(names);
    std::vector<Datum> results = execute(std::move(given), run_options);
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(wanted.size())));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                      to_python(results[wanted[i]], returns_own_memory_).release().ptr());
    return list;
  }

  // `places`: for each name the destination of its value: None for the CPU's memory, a number for that of a GPU, or a value on
  // a GPU whose memory is overwritten. None: all go to the CPU's memory.
  std::vector<HeldValue> run_values(nb::handle names, nb::handle feeds, nb::handle run_options, nb::handle places) {
    if (PythonSession* const other = overridden(feeds)) return other->run_values(names, feeds, run_options, places);
    std::vector<HeldValue> given = in_situation("argument", [&] { return given_inputs(feeds); });
    if (is_on_gpus(given) || !places.is_none()) return run_on_gpus(names, given, run_options, places);
    const std::vector<std::size_t> wanted = wanted_outputs(names);
    std::vector<Datum> results = execute(std::move(given), run_options);
    std::vector<HeldValue> values;
    for (const std::size_t o : wanted) values.push_back({own(results[o])});
    return values;
  }

  const std::vector<Declaration>& inputs() const { return inputs_; }
  const std::vector<Declaration>& outputs() const { return outputs_; }
  const std::vector<Declaration>& overridable_initializers() const { return overridable_; }
  const ModelDescription& description() const { return description_; }

  // A run is reported when it has ended. Until then other threads may need the GIL to end it.
  nb::list profile() const {
    std::vector<StepProfile> steps;
    {
      const nb::gil_scoped_release release;
      steps = session_->profile();
    }
    nb::list all;
    for (const StepProfile& step : steps) {
      nb::dict facts;
      facts["node"] = step.node;
      facts["operators"] = step.operators;
      facts["seconds"] = step.seconds;
      facts["runs"] = step.runs;
      facts["flops"] = step.flops;
      facts["bytes"] = step.bytes;
      all.append(facts);
    }
    return all;
  }
  std::vector<std::string> warnings() const {
    const nb::gil_scoped_release release;
    return session_->warnings();
  }
  std::size_t peak_bytes() const {
    const nb::gil_scoped_release release;
    return session_->peak_bytes();
  }
  nb::dict checked_kernels() const {
    CheckedKernels counts;
    {
      const nb::gil_scoped_release release;
      counts = rewright::runtime::checked_kernels(*session_);
    }
    nb::dict facts;
    facts["steps"] = counts.steps;
    facts["checked"] = counts.checked;
    facts["elements"] = counts.elements;
    return facts;
  }

 private:
  // The session whose inputs include the given weights, made when they are first given. Null if none is given.
  PythonSession* overridden(nb::handle feeds) {
    std::set<std::string> names;
    for (const Declaration& weight : overridable_)
      if (nb::cast<bool>(nb::borrow(feeds).attr("__contains__")(weight.name))) names.insert(weight.name);
    if (names.empty()) return nullptr;
    const auto known = with_inputs_.find(names);
    if (known != with_inputs_.end()) return known->second.get();
    std::unique_ptr<PythonSession> made =
        in_situation("model", [&] { return with_(names); });  // without the GIL: another thread may have made it
    return with_inputs_.try_emplace(std::move(names), std::move(made)).first->second.get();
  }

  static bool is_on_gpus(const std::vector<HeldValue>& values) {
    return std::any_of(values.begin(), values.end(), [](const HeldValue& value) { return value.placed != nullptr; });
  }

  static nb::object arrays_of(const std::vector<HeldValue>& values) {
    nb::list list;
    for (const HeldValue& value : values) list.append(to_python(value.datum, true));
    return list;
  }

  const Tensor& tensor_given(const Datum& datum, std::size_t input) const {
    if (!datum.is_tensor())
      throw SituatedError({ErrorCode::kBadInput, "a tensor is needed", "input \"" + inputs_[input].name + "\""}, "argument");
    return datum.tensor();
  }

  std::vector<Datum> execute(std::vector<HeldValue> given, nb::handle run_options) {
    if (!tensors_alone_) {
      std::vector<Datum> data;
      for (const HeldValue& value : given) data.push_back(value.datum);
      std::vector<Datum> found = endable(run_options, [&] { return session_->execute(data); });
      warn_of_kernels();
      return found;
    }
    std::vector<Tensor> tensors;
    tensors.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) tensors.push_back(tensor_given(given[i].datum, i));
    std::vector<Tensor> found = endable(run_options, [&] { return session_->run(tensors); });
    warn_of_kernels();
    return {std::make_move_iterator(found.begin()), std::make_move_iterator(found.end())};
  }

  // Reports each warning once, through Python's warnings.
  void warn_of_kernels() {
    if (!checks_kernels_) return;
    for (const std::string& line : session_->warnings())
      if (warned_.insert(line).second && PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1) < 0) throw nb::python_error();
  }

  std::vector<HeldValue> run_on_gpus(nb::handle names, const std::vector<HeldValue>& given, nb::handle run_options,
                                     nb::handle places) {
    if (!tensors_alone_)
      throw Error(ErrorCode::kUnsupported, "sequences and optional values cannot be beside tensors in a GPU's memory", {},
                  "give all inputs and take all outputs in the CPU's memory");
    std::vector<PlacedTensor> inputs;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].placed)
        inputs.emplace_back(*given[i].placed);
      else
        inputs.emplace_back(tensor_given(given[i].datum, i));
    }
    const std::vector<std::size_t> wanted = wanted_outputs(names);
    std::vector<Destination> destinations(outputs_.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      destinations[wanted[i]] = places.is_none() ? Destination(OnHost()) : destination_of(nb::borrow(places[i]));
    std::vector<std::string> output_names;
    for (const Declaration& output : outputs_) output_names.push_back(output.name);
    const std::vector<PlacedTensor> results =
        endable(run_options, [&] { return run_placed(*session_, inputs, destinations, output_names); });
    std::vector<HeldValue> values;
    for (const std::size_t o : wanted) {
      if (const auto* const placed = std::get_if<DeviceTensor>(&results[o]))
        values.push_back({{}, std::make_shared<DeviceTensor>(*placed)});
      else
        values.push_back({own(std::get<Tensor>(results[o]))});
    }
    return values;
  }

  static Destination destination_of(const nb::object& place) {
    if (place.is_none()) return OnHost();
    if (!nb::isinstance<HeldValue>(place)) return OnDevice{nb::cast<int>(place)};
    const auto& value = nb::cast<const HeldValue&>(place);
    if (!value.placed) throw Error(ErrorCode::kUsage, "only a value in a GPU's memory can take an output");
    return *value.placed;
  }

  std::vector<HeldValue> given_inputs(nb::handle feeds) {
    nb::object as_dict;
    if (!PyDict_Check(feeds.ptr())) {
      as_dict = nb::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyDict_Type), feeds.ptr()));
      if (!as_dict.is_valid()) throw nb::python_error();
      feeds = as_dict;
    }
    std::vector<HeldValue> given;
    given.reserve(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      PyObject* const value = PyDict_GetItemWithError(feeds.ptr(), input_names_[i].ptr());
      if (value == nullptr) {
        if (PyErr_Occurred()) throw nb::python_error();
        if (inputs_[i].type.starts_with("optional(")) {
          given.emplace_back();
          continue;
        }
        throw Error(ErrorCode::kBadInput, "is not given", "input \"" + inputs_[i].name + "\"",
                    "the model's inputs are " + joined(inputs_));
      }
      given.push_back(to_value(value, inputs_[i]));
    }
    if (static_cast<std::size_t>(PyDict_Size(feeds.ptr())) > inputs_.size()) refuse_others(feeds);
    return given;
  }

  void refuse_others(nb::handle feeds) const {
    for (const auto [key, value] : nb::borrow<nb::dict>(feeds)) {
      const std::string name = nb::cast<std::string>(nb::str(key));
      if (std::none_of(inputs_.begin(), inputs_.end(), [&](const Declaration& input) { return input.name == name; }))
        throw Error(ErrorCode::kBadInput, "the model has no input \"" + name + "\"", {}, "it has " + joined(inputs_));
    }
  }

  // Positions of the requested outputs: all if no name is given.
  std::vector<std::size_t> wanted_outputs(nb::handle names) const {
    std::vector<std::size_t> wanted;
    if (PyUnicode_Check(names.ptr())) throw nb::type_error("output_names: give a list of names, or None for all");
    if (names.is_none() || PyObject_Length(names.ptr()) == 0) {
      for (std::size_t o = 0; o < outputs_.size(); ++o) wanted.push_back(o);
      return wanted;
    }
    for (const nb::handle name : names) {
      const auto found = std::find_if(output_names_.begin(), output_names_.end(), [&](const nb::object& known) {
        return known.is(name) || PyUnicode_Compare(known.ptr(), name.ptr()) == 0;
      });
      if (PyErr_Occurred()) throw nb::python_error();
      if (found == output_names_.end())
        throw SituatedError({ErrorCode::kBadInput,
                             "the model has no output \"" + nb::cast<std::string>(nb::str(name)) + "\"",
                             {},
                             "it has " + joined(outputs_)},
                            "argument");
      wanted.push_back(static_cast<std::size_t>(found - output_names_.begin()));
    }
    return wanted;
  }

  // A copy that shares no memory.
  Datum own(const Datum& datum) const {
    if (returns_own_memory_ || datum.empty()) return datum;
    if (datum.is_sequence()) {
      std::vector<Datum> elements;
      for (const Datum& element : datum.elements()) elements.push_back(own(element));
      return Datum::sequence(std::move(elements));
    }
    if (datum.is_map()) return Datum::map(datum.keys(), own(Datum(datum.values())).tensor());
    const Tensor& tensor = datum.tensor();
    if (tensor.type() == DataType::kString || tensor.byte_count() == 0) return datum;
    Tensor copy(tensor.type(), tensor.sizes());
    std::memcpy(copy.mutable_bytes().data(), tensor.bytes().data(), tensor.byte_count());
    return copy;
  }

  std::vector<Declaration> overridable_, inputs_, outputs_;
  ModelDescription description_;
  std::vector<nb::object> input_names_, output_names_;
  bool returns_own_memory_ = false, tensors_alone_ = true, checks_kernels_ = false;
  std::set<std::string> warned_;
  std::unique_ptr<Session> session_;
  std::function<std::unique_ptr<PythonSession>(const std::set<std::string>&)> with_;
  std::map<std::set<std::string>, std::unique_ptr<PythonSession>> with_inputs_;
};

PythonSession prepared(const NamedGraph& graph, const std::string& device, int threads, const std::string& math,
                       const std::string& kernels, const std::string& plan_cache, bool profile, bool check_kernels) {
  SessionOptions options;
  options.threads = usable_threads(threads);
  options.kernels = kernel_choices().value(kernels);
  options.plan_cache = plan_cache;
  options.profile = profile;
  const MathClass allowed = math_choices().value(math);
  options.transformed_convolutions = allowed != MathClass::kExact;
  return in_situation("model", [&] {
    return PythonSession(NamedGraph{with_defaults(graph.graph), graph.name}, device, options, allowed, check_kernels);
  });
}

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<RunOptions>(m, "RunOptions")
      .def(nb::init<const RunOptions*>(), nb::arg("outer").none() = nb::none(), nb::keep_alive<1, 2>(),
           "outer: options that end the runs, too.")
      .def_prop_rw(
          "terminate", [](const RunOptions& options) { return options.terminate.load(); },
          [](RunOptions& options, nb::handle value) {
            const PyNumberMethods* const number = Py_TYPE(value.ptr())->tp_as_number;
            if (!value.is_none() && (number == nullptr || number->nb_bool == nullptr))
              throw nb::type_error("terminate is True or False");
            options.terminate = PyObject_IsTrue(value.ptr()) == 1;
          },
          nb::for_setter(nb::arg("value").none()),
          "True ends the runs that were given these options, soon, with a CancelledError, and so every later one that is.\n"
          "May be set by any thread.");
  nb::class_<PythonSession>(m, "Session")
      .def(
          "__init__",
          [](PythonSession* self, const NamedGraph& graph, const std::string& device, int threads, const std::string& math,
             const std::string& kernels, const std::string& plan_cache, bool profile, bool check_kernels) {
            new (self) PythonSession(prepared(graph, device, threads, math, kernels, plan_cache, profile, check_kernels));
          },
          nb::arg("graph"), nb::arg("device"), nb::arg("threads"), nb::arg("math"), nb::arg("kernels"), nb::arg("plan_cache"),
          nb::arg("profile"), nb::arg("check_kernels"))
      .def(
          "prepare_again",
          [](PythonSession& self, const NamedGraph& graph, const std::string& device, int threads, const std::string& math,
             const std::string& kernels, const std::string& plan_cache, bool profile, bool check_kernels) {
            self = prepared(graph, device, threads, math, kernels, plan_cache, profile, check_kernels);
          },
          nb::arg("graph"), nb::arg("device"), nb::arg("threads"), nb::arg("math"), nb::arg("kernels"), nb::arg("plan_cache"),
          nb::arg("profile"), nb::arg("check_kernels"))
      .def("run", &PythonSession::run, nb::arg("output_names").none(), nb::arg("input_feed"),
           nb::arg("run_options") = nb::none(),
           nb::sig("def run(self, output_names: collections.abc.Sequence[str] | None, input_feed: "
                   "collections.abc.Mapping[str, typing.Any], run_options: object | None = None) -> list"),
           "Runs the model.\n\n"
           "output_names: the outputs wanted, in this order; None or an empty list for all.\n"
           "input_feed: for each of the model's inputs its value, of the declared type and shape: a NumPy array, anything\n"
           "    with __dlpack__ (a torch tensor), an OrtValue, a list for a sequence, None for an empty optional. Arrays in\n"
           "    order are read where they are, and those on a GPU by a session that runs there.\n"
           "run_options: RunOptions; setting its `terminate` from another thread ends the run with a CancelledError.\n\n"
           "Returns a list: NumPy arrays that are the caller's to keep and change, lists for sequences, None for nothing.\n"
           "Types that NumPy lacks are those of ml_dtypes. May be called by several threads at once; the GIL is free while\n"
           "the model runs. Raises rewright.Error where inputs do not fit.")
      .def("run_values", &PythonSession::run_values, nb::arg("output_names").none(), nb::arg("input_feed"),
           nb::arg("run_options") = nb::none(), nb::arg("places") = nb::none())
      .def("declared_inputs", &PythonSession::inputs)
      .def("declared_outputs", &PythonSession::outputs)
      .def("overridable_initializers", &PythonSession::overridable_initializers)
      .def("description", &PythonSession::description)
      .def("profile", &PythonSession::profile,
           "What each step did, over all runs so far: a list of {node, operators, seconds, runs, flops, bytes}. Times are\n"
           "measured where SessionOptions.enable_profiling was set.")
      .def("warnings", &PythonSession::warnings)
      .def_prop_ro("peak_bytes", &PythonSession::peak_bytes, "Of intermediate values, in the last run.")
      .def_prop_ro(
          "checked_kernels", &PythonSession::checked_kernels,
          "What SessionOptions.check_kernels has compared so far: {steps, checked, elements}, of the steps of all plans\n"
          "those with an element that was compared, and these elements.");
  m.def("has_cuda_device", &cuda::has_cuda_device, "Is there a GPU, and a build that can use it?");
}

}  // namespace rewright::python
