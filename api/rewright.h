// Rewright for C++: optimize ONNX models, train them and run them. A thin layer over the C interface (rewright_c.h), so that a
// program needs no other header and keeps working with later versions of the library. C++17.
//
//   const rewright::Model model = rewright::Model::read("model.onnx");
//   const rewright::Result result = rewright::optimize(model, {{"device", "cpu"}, {"budget", "10s"}});
//   result.model().write("faster.onnx");
//
// Callbacks of callers may throw: that ends what was called with a Failure that says the same.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rewright_c.h"

namespace rewright {
// Keeps these types apart from the library's own of the same names (the one-definition rule). Programs write rewright::Model.
inline namespace v0 {

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

inline ValueInfo describe(const rewright_value& value) {
  ValueInfo info;
  info.name = value.name;
  info.type = value.type;
  info.rank_known = value.rank >= 0;
  for (std::int32_t a = 0; a < value.rank; ++a) {
    info.sizes.push_back(value.sizes[a]);
    info.size_names.emplace_back(value.size_names[a]);
  }
  return info;
}

// A node as callbacks see it; valid until they return.
class Node {
 public:
  explicit Node(const rewright_node* node) : node_(node) {}
  std::string op() const { return rewright_node_operator(node_); }  // "Conv"
  std::string domain() const { return rewright_node_domain(node_); }
  std::size_t input_count() const { return rewright_node_input_count(node_); }
  std::size_t output_count() const { return rewright_node_output_count(node_); }
  ValueInfo input(std::size_t i) const { return value(rewright_node_input, i); }
  ValueInfo output(std::size_t i) const { return value(rewright_node_output, i); }
  // Attributes: a number or several, or a text. Empty where the node does not say it.
  std::vector<std::int64_t> integers(const std::string& attribute) const {
    return numbers<std::int64_t>(rewright_node_integers, attribute);
  }
  std::vector<double> reals(const std::string& attribute) const { return numbers<double>(rewright_node_reals, attribute); }
  std::string text(const std::string& attribute) const {
    const char* found = nullptr;
    check(rewright_node_text(node_, attribute.c_str(), &found));
    return found ? found : "";
  }

 private:
  template <class Get>
  ValueInfo value(Get get, std::size_t i) const {
    rewright_value value;
    check(get(node_, i, &value));
    return describe(value);
  }
  template <class T, class Get>
  std::vector<T> numbers(Get get, const std::string& attribute) const {
    const T* values = nullptr;
    std::size_t count = 0;
    check(get(node_, attribute.c_str(), &values, &count));
    return count > 0 ? std::vector<T>(values, values + count) : std::vector<T>();
  }
  const rewright_node* node_;
};

// Operators of your own. Copies share them, and so do models that are read with them.
class Operators {
 public:
  // The type and the sizes of each output, from those of the inputs: rewright_infer. An output of rank_known false is not
  // known.
  using Infer = std::function<std::vector<ValueInfo>(const Node& node)>;
  // Fills the outputs: rewright_compute.
  using Compute =
      std::function<void(const Node& node, const std::vector<rewright_tensor>& inputs, std::vector<rewright_tensor>& outputs)>;

  void add(const std::string& domain, const std::string& type, Infer infer, Compute compute) {
    kernels_->push_back({std::move(infer), std::move(compute)});
    check(rewright_operators_add(operators_.get(), domain.c_str(), type.c_str(), infer_types, compute_elements,
                                 &kernels_->back()));
  }

 private:
  friend class Model;
  struct Kernel {
    Infer infer;
    Compute compute;
  };

  template <class Work>
  static int guarded(rewright_node* node, const Work& work) {
    try {
      work();
      return 0;
    } catch (const std::exception& error) {
      return rewright_node_fail(node, error.what());
    }
  }
  static int infer_types(rewright_node* node, void* user) {
    return guarded(node, [&] {
      const std::vector<ValueInfo> outputs = static_cast<const Kernel*>(user)->infer(Node(node));
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].rank_known)
          check(rewright_node_set_output(node, i, outputs[i].type, static_cast<std::int32_t>(outputs[i].sizes.size()),
                                         outputs[i].sizes.data()));
    });
  }
  static int compute_elements(rewright_node* node, const rewright_tensor* inputs, rewright_tensor* outputs, void* user) {
    return guarded(node, [&] {
      const std::vector<rewright_tensor> given(inputs, inputs + rewright_node_input_count(node));
      std::vector<rewright_tensor> places(outputs, outputs + rewright_node_output_count(node));
      static_cast<const Kernel*>(user)->compute(Node(node), given, places);
    });
  }
  static std::shared_ptr<rewright_operators> create() {
    rewright_operators* made = nullptr;
    check(rewright_operators_create(&made));
    return {made, rewright_operators_free};
  }

  std::shared_ptr<rewright_operators> operators_ = create();
  std::shared_ptr<std::list<Kernel>> kernels_ = std::make_shared<std::list<Kernel>>();
};

class Options;
class Result;
class Plan;
class Trained;
class Training;

// Copies share one model, which does not change.
class Model {
 public:
  static Model read(const std::string& file, const Operators& operators = {}) {
    rewright_model* model = nullptr;
    check(rewright_model_read_with(file.c_str(), operators.operators_.get(), &model));
    return Model(model, operators);
  }
  static Model parse(const std::string& bytes, const std::string& name = "model", const Operators& operators = {}) {
    rewright_model* model = nullptr;
    check(rewright_model_parse_with(bytes.data(), bytes.size(), name.c_str(), operators.operators_.get(), &model));
    return Model(model, operators);
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
  friend Result optimize(const Model& model, const Options& options);
  friend class Trained;
  friend Trained train(const Model& model, const Training& training);
  friend Plan plan(const Model& model, std::initializer_list<std::pair<std::string, std::string>> options);
  friend class Runner;
  Model(rewright_model* model, Operators operators) : model_(model, rewright_model_free), operators_(std::move(operators)) {}
  Model(std::shared_ptr<const rewright_model> model, Operators operators)
      : model_(std::move(model)), operators_(std::move(operators)) {}

  template <class Get>
  std::vector<ValueInfo> values(std::size_t count, Get get) const {
    std::vector<ValueInfo> result;
    for (std::size_t i = 0; i < count; ++i) {
      rewright_value value;
      check(get(this->get(), i, &value));
      result.push_back(describe(value));
    }
    return result;
  }

  std::shared_ptr<const rewright_model> model_;
  Operators operators_;  // lives as long as what is read with them
};

class Result {
 public:
  Model model() const {
    return Model(std::shared_ptr<const rewright_model>(result_, rewright_result_model(result_.get())), operators_);
  }
  double speedup() const { return rewright_result_speedup(result_.get()); }  // measured; 1 where nothing was
  std::string report() const { return rewright_result_report(result_.get()); }
  std::string certificate() const { return rewright_result_certificate(result_.get()); }
  std::string page() const { return rewright_result_page(result_.get()); }  // HTML; empty if it was not asked for

 private:
  friend Result optimize(const Model& model, const Options& options);
  Result(rewright_result* result, Operators operators)
      : result_(result, rewright_result_free), operators_(std::move(operators)) {}
  std::shared_ptr<rewright_result> result_;
  Operators operators_;
};

// Told how far the work is; false ends the search with the best so far.
using Progress = std::function<bool(const std::string& stage, double fraction, double predicted_gain)>;
// The cost of a node in seconds: see rewright_cost.
using Cost = std::function<double(const Node& node)>;

// Options as `rewright optimize --help` lists them, without the dashes; flags are "true" or "false".
class Options {
 public:
  Options(std::initializer_list<std::pair<std::string, std::string>> options = {}) {  // NOLINT: a list is options
    rewright_options* made = nullptr;
    check(rewright_options_create(&made));
    options_.reset(made, rewright_options_free);
    for (const auto& [name, value] : options) set(name, value);
  }
  Options& set(const std::string& name, const std::string& value) {
    check(rewright_options_set(get(), name.c_str(), value.c_str()));
    return *this;
  }
  // Rules of your own, as text or bytes of a rule file: see rewright_options_add_rules.
  Options& add_rules(const std::string& rules, const std::string& name = "rules") {
    check(rewright_options_add_rules(get(), rules.data(), rules.size(), name.c_str()));
    return *this;
  }
  Options& progress(Progress progress) {
    callbacks_->progress = std::move(progress);
    check(rewright_options_set_progress(get(), tell, callbacks_.get()));
    return *this;
  }
  Options& cost(Cost cost) {
    callbacks_->cost = std::move(cost);
    check(rewright_options_set_cost(get(), ask, callbacks_.get()));
    return *this;
  }
  Options& page(bool wanted = true) {
    check(rewright_options_set_page(get(), wanted ? 1 : 0));
    return *this;
  }

 private:
  friend Result optimize(const Model& model, const Options& options);
  struct Callbacks {
    Progress progress;
    Cost cost;
    std::mutex mutex;            // several threads ask for costs while one is told how far the work is
    std::exception_ptr failure;  // the first

    void keep_failure() {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    bool failed() {
      const std::lock_guard<std::mutex> lock(mutex);
      return failure != nullptr;
    }
  };
  static int tell(const char* stage, double fraction, double gain, void* user) {
    auto& callbacks = *static_cast<Callbacks*>(user);
    try {
      return !callbacks.failed() && callbacks.progress(stage, fraction, gain) ? 0 : 1;
    } catch (...) {
      callbacks.keep_failure();
      return 1;
    }
  }
  static double ask(const rewright_node* node, void* user) {
    auto& callbacks = *static_cast<Callbacks*>(user);
    try {
      return callbacks.cost(Node(node));
    } catch (...) {
      callbacks.keep_failure();
      return -1;
    }
  }
  rewright_options* get() const { return options_.get(); }

  std::shared_ptr<rewright_options> options_;
  std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
};

// Throws what a callback threw.
inline Result optimize(const Model& model, const Options& options = {}) {
  options.callbacks_->failure = nullptr;
  rewright_result* result = nullptr;
  const rewright_status status = rewright_optimize(model.get(), options.get(), &result);
  const std::exception_ptr failure = std::exchange(options.callbacks_->failure, nullptr);
  if (status == REWRIGHT_OK) {
    Result made(result, model.operators_);
    if (failure) std::rethrow_exception(failure);
    return made;
  }
  if (failure) std::rethrow_exception(failure);
  throw Failure(status);
}

// A plan for many processes, which is proved: the content of a file for `--plan`, and a report as `rewright plan --json` has
// it.
class Plan {
 public:
  std::string text() const { return rewright_plan_text(plan_.get()); }
  std::string report() const { return rewright_plan_report(plan_.get()); }

 private:
  friend Plan plan(const Model& model, std::initializer_list<std::pair<std::string, std::string>> options);
  explicit Plan(rewright_plan* plan) : plan_(plan, rewright_plan_free) {}
  std::shared_ptr<rewright_plan> plan_;
};

// Options as `rewright plan --help` lists them: plan(model, {{"machine", "cluster.json"}, {"batch", "256"}}).
inline Plan plan(const Model& model, std::initializer_list<std::pair<std::string, std::string>> options) {
  rewright_planning* made = nullptr;
  check(rewright_planning_create(&made));
  const std::unique_ptr<rewright_planning, void (*)(rewright_planning*)> planning(made, rewright_planning_free);
  for (const auto& [name, value] : options) check(rewright_planning_set(planning.get(), name.c_str(), value.c_str()));
  rewright_plan* found = nullptr;
  check(rewright_make_plan(model.model_.get(), planning.get(), &found));
  return Plan(found);
}

// Whether the plan in the file computes what the model computes: "" if that is proved, else what is wrong. Throws Failure for a
// plan of another model.
inline std::string check_plan(const Model& model, const std::string& file) {
  char* reason = nullptr;
  check(rewright_check_plan(model.get(), file.c_str(), &reason));
  const std::unique_ptr<char, decltype(&rewright_bytes_free)> owner(reason, rewright_bytes_free);
  return reason;
}

// Two models proved equal, or where they differ.
class Proof {
 public:
  std::string verdict() const { return rewright_proof_verdict(proof_.get()); }  // "proved", "refuted" or "undecided"
  std::string report() const { return rewright_proof_report(proof_.get()); }    // JSON, as `rewright prove --json`
  explicit operator bool() const { return verdict() == "proved"; }

 private:
  friend Proof prove(const std::string& first, const std::string& second,
                     std::initializer_list<std::pair<std::string, std::string>> options);
  explicit Proof(rewright_proof* proof) : proof_(proof, rewright_proof_free) {}
  std::shared_ptr<rewright_proof> proof_;
};

// Does the model in the second file compute what the one in the first computes? Options as `rewright prove --help` lists them:
// prove("model.onnx", "faster.onnx", {{"certificate", "proof"}}). Throws Failure for models without the same inputs and
// outputs.
inline Proof prove(const std::string& first, const std::string& second,
                   std::initializer_list<std::pair<std::string, std::string>> options = {}) {
  rewright_proving* made = nullptr;
  check(rewright_proving_create(&made));
  const std::unique_ptr<rewright_proving, void (*)(rewright_proving*)> proving(made, rewright_proving_free);
  for (const auto& [name, value] : options) check(rewright_proving_set(proving.get(), name.c_str(), value.c_str()));
  rewright_proof* found = nullptr;
  check(rewright_prove(first.c_str(), second.c_str(), proving.get(), &found));
  return Proof(found);
}

// Follows the proof in a folder, without a search. Throws Failure if it is damaged or for other models.
inline bool check_proof(const std::string& first, const std::string& second, const std::string& certificate) {
  int accepted = 0;
  check(rewright_check_proof(first.c_str(), second.c_str(), certificate.c_str(), &accepted));
  return accepted != 0;
}

// A step of training that has been made; skipped: loss or gradients were not finite, and nothing has changed.
struct Step {
  std::int64_t step = 0, steps = 0, epoch = 0;  // from 1; of all; passes over the data before it
  double loss = 0, rate = 0, examples_per_second = 0;
  bool skipped = false;
};

// A request to train: options as `rewright train --help` lists them, without the dashes, and data in memory.
class Training {
 public:
  // Told after each step; false ends the training, with what was trained so far.
  using Told = std::function<bool(const Step& step)>;

  Training(std::initializer_list<std::pair<std::string, std::string>> options = {}) {  // NOLINT: a list is options
    rewright_training* made = nullptr;
    check(rewright_training_create(&made));
    training_.reset(made, rewright_training_free);
    for (const auto& [name, value] : options) set(name, value);
  }
  Training& set(const std::string& name, const std::string& value) {
    check(rewright_training_set(training_.get(), name.c_str(), value.c_str()));
    return *this;
  }
  // Instead of files: all examples for an input, or the "targets"; the first axis counts examples.
  Training& data(const std::string& name, Array examples) { return add(0, name, std::move(examples)); }
  // Held-out data of the same form, to evaluate the model on at the end.
  Training& held_out(const std::string& name, Array examples) { return add(1, name, std::move(examples)); }
  Training& progress(Told told) {
    callback_->told = std::move(told);
    check(rewright_training_set_progress(training_.get(), tell, callback_.get()));
    return *this;
  }

 private:
  friend class Trained;
  friend Trained train(const Model& model, const Training& training);
  struct Callback {
    Told told;
    std::exception_ptr failure;
  };
  static int tell(const rewright_step* s, void* user) {
    auto& callback = *static_cast<Callback*>(user);
    try {
      const Step step{s->step, s->steps, s->epoch, s->loss, s->rate, s->examples_per_second, s->skipped != 0};
      return callback.told(step) ? 0 : 1;
    } catch (...) {
      callback.failure = std::current_exception();
      return 1;
    }
  }
  Training& add(int held_out, const std::string& name, Array examples) {
    arrays_->push_back(std::move(examples));
    Array& array = arrays_->back();
    const rewright_tensor tensor{array.type, static_cast<std::int32_t>(array.sizes.size()), array.sizes.data(),
                                 array.bytes.data(), array.bytes.size()};
    check(rewright_training_add_data(training_.get(), held_out, name.c_str(), &tensor));
    return *this;
  }

  std::shared_ptr<rewright_training> training_;
  std::shared_ptr<Callback> callback_ = std::make_shared<Callback>();
  std::shared_ptr<std::list<Array>> arrays_ = std::make_shared<std::list<Array>>();  // they do not move
};

class Trained {
 public:
  Model model() const {
    return Model(std::shared_ptr<const rewright_model>(trained_, rewright_trained_model(trained_.get())), operators_);
  }
  double loss() const { return rewright_trained_loss(trained_.get()); }  // of the last step
  std::string report() const { return rewright_trained_report(trained_.get()); }

 private:
  friend Trained train(const Model& model, const Training& training);
  Trained(rewright_trained* trained, Operators operators)
      : trained_(trained, rewright_trained_free), operators_(std::move(operators)) {}
  std::shared_ptr<rewright_trained> trained_;
  Operators operators_;
};

// Trains a copy of the model: see rewright_train. Throws what a callback threw.
inline Trained train(const Model& model, const Training& training) {
  training.callback_->failure = nullptr;
  rewright_trained* trained = nullptr;
  const rewright_status status = rewright_train(model.get(), training.training_.get(), &trained);
  const std::exception_ptr failure = std::exchange(training.callback_->failure, nullptr);
  if (status != REWRIGHT_OK && !failure) throw Failure(status);
  if (status != REWRIGHT_OK) std::rethrow_exception(failure);
  Trained made(trained, model.operators_);
  if (failure) std::rethrow_exception(failure);
  return made;
}

// Ends runs from another thread: they throw a Failure with REWRIGHT_CANCELLED.
class Ending {
 public:
  Ending() {
    rewright_ending* made = nullptr;
    check(rewright_ending_create(&made));
    ending_.reset(made, rewright_ending_free);
  }
  // All runs that have it, and all that will, until it is set to false again.
  void set(bool ended = true) { rewright_ending_set(ending_.get(), ended ? 1 : 0); }
  const rewright_ending* get() const { return ending_.get(); }

 private:
  std::shared_ptr<rewright_ending> ending_;
};

// May be run by several threads at once.
class Runner {
 public:
  // `device`: cpu, cuda, cuda:N or reference. `threads`: 0 for all cores.
  explicit Runner(const Model& model, const std::string& device = "cpu", int threads = 0)
      : operators_(model.operators_), outputs_(rewright_model_output_count(model.get())) {
    rewright_session* session = nullptr;
    check(rewright_session_create(model.get(), device.c_str(), threads, &session));
    session_.reset(session, rewright_session_free);
  }
  // One that compares elements of what its kernels compute with the operators' definitions: see
  // rewright_session_create_checked.
  static Runner checked(const Model& model, const std::string& device = "cpu", int threads = 0) {
    rewright_session* session = nullptr;
    check(rewright_session_create_checked(model.get(), device.c_str(), threads, &session));
    return Runner(model, session);
  }
  // Warnings so far, such as that a kernel was wrong; runs may add to them.
  std::vector<std::string> warnings() const {
    std::vector<std::string> result;
    for (std::size_t n = rewright_session_warning_count(session_.get()), i = 0; i < n; ++i)
      result.emplace_back(rewright_session_warning(session_.get(), i));
    return result;
  }
  // The number of steps of which at least one element was compared.
  std::size_t checked_steps() const { return rewright_session_checked_steps(session_.get()); }
  // Inputs and outputs in the order of the model's.
  std::vector<Array> run(const std::vector<Array>& inputs) const {
    std::vector<rewright_tensor> given;
    for (const Array& array : inputs) given.push_back(view(array));
    Outputs found(outputs_);
    check(rewright_session_run(session_.get(), given.data(), given.size(), found.tensors.data(), found.tensors.size()));
    return found.arrays();
  }
  // As above; `ending` ends it.
  std::vector<Array> run(const std::vector<Array>& inputs, const Ending& ending) const {
    std::vector<rewright_tensor> given;
    for (const Array& array : inputs) given.push_back(view(array));
    Outputs found(outputs_);
    check(rewright_session_run_until(session_.get(), ending.get(), given.data(), given.size(), found.tensors.data(),
                                     found.tensors.size()));
    return found.arrays();
  }
  // All inputs by their names, and the outputs that are wanted by theirs.
  std::vector<Array> run(const std::map<std::string, Array>& inputs, const std::vector<std::string>& outputs) const {
    std::vector<rewright_tensor> given;
    std::vector<const char*> input_names, output_names;
    for (const auto& [name, array] : inputs) {
      input_names.push_back(name.c_str());
      given.push_back(view(array));
    }
    for (const std::string& name : outputs) output_names.push_back(name.c_str());
    Outputs found(outputs.size());
    check(rewright_session_run_named(session_.get(), input_names.data(), given.data(), given.size(), output_names.data(),
                                     found.tensors.data(), found.tensors.size()));
    return found.arrays();
  }

 private:
  friend class Binding;
  Runner(const Model& model, rewright_session* session)
      : operators_(model.operators_),
        session_(session, rewright_session_free),
        outputs_(rewright_model_output_count(model.get())) {}
  struct Outputs {
    explicit Outputs(std::size_t count) : tensors(count) {}
    Outputs(const Outputs&) = delete;
    Outputs& operator=(const Outputs&) = delete;
    ~Outputs() {
      for (rewright_tensor& tensor : tensors) rewright_tensor_free(&tensor);
    }
    std::vector<Array> arrays() const {
      std::vector<Array> result;
      for (const rewright_tensor& tensor : tensors) {
        const auto* data = static_cast<const unsigned char*>(tensor.data);
        result.push_back({tensor.type, {tensor.sizes, tensor.sizes + tensor.rank}, {data, data + tensor.bytes}});
      }
      return result;
    }
    std::vector<rewright_tensor> tensors;
  };
  static rewright_tensor view(const Array& array) {
    return {array.type, static_cast<std::int32_t>(array.sizes.size()), array.sizes.data(),
            const_cast<unsigned char*>(array.bytes.data()), array.bytes.size()};
  }

  Operators operators_;
  std::shared_ptr<rewright_session> session_;
  std::size_t outputs_;
};

// A tensor in memory of somebody else's, on the host ("cpu") or on a GPU ("cuda", "cuda:N").
struct View {
  std::int32_t type = 1;  // of the elements, as ONNX's TensorProto numbers them
  std::vector<std::int64_t> sizes;
  void* data = nullptr;
  std::size_t bytes = 0;
};

// A runner's inputs and outputs bound to memory, to run again and again without copies through the host: see rewright_binding.
class Binding {
 public:
  explicit Binding(const Runner& runner) : session_(runner.session_) {
    rewright_binding* made = nullptr;
    check(rewright_binding_create(session_.get(), &made));
    binding_.reset(made);
  }
  Binding& input(const std::string& name, const std::string& device, const View& view) {
    const rewright_tensor tensor = tensor_of(view);
    check(rewright_binding_input(binding_.get(), name.c_str(), device.c_str(), &tensor));
    return *this;
  }
  Binding& output(const std::string& name, const std::string& device, const View& view) {
    const rewright_tensor tensor = tensor_of(view);
    check(rewright_binding_output(binding_.get(), name.c_str(), device.c_str(), &tensor));
    return *this;
  }
  // To memory that each run allocates.
  Binding& output(const std::string& name, const std::string& device) {
    check(rewright_binding_output(binding_.get(), name.c_str(), device.c_str(), nullptr));
    return *this;
  }
  void run() { check(rewright_binding_run(binding_.get(), nullptr)); }
  void run(const Ending& ending) { check(rewright_binding_run(binding_.get(), ending.get())); }
  // Valid until the next run.
  View result(const std::string& name) const {
    rewright_tensor tensor{};
    check(rewright_binding_result(binding_.get(), name.c_str(), &tensor));
    return {tensor.type, {tensor.sizes, tensor.sizes + tensor.rank}, tensor.data, tensor.bytes};
  }

 private:
  struct Free {
    void operator()(rewright_binding* binding) const { rewright_binding_free(binding); }
  };
  static rewright_tensor tensor_of(const View& view) {
    return {view.type, static_cast<std::int32_t>(view.sizes.size()), view.sizes.data(), view.data, view.bytes};
  }

  std::shared_ptr<rewright_session> session_;  // freed after the binding
  std::unique_ptr<rewright_binding, Free> binding_;
};

// Sequences of tokens that go on: see rewright_generation.
class Generation {
 public:
  // The next token of each sequence, -1 for those that have ended; empty once all have.
  std::vector<std::int64_t> next() {
    std::vector<std::int64_t> tokens(sequences_);
    int running = 0;
    check(rewright_generation_next(generation_.get(), tokens.data(), tokens.size(), &running));
    if (running == 0) tokens.clear();
    return tokens;
  }

 private:
  friend class LanguageModel;
  Generation(rewright_generation* generation, std::size_t sequences)
      : generation_(generation, rewright_generation_free), sequences_(sequences) {}
  std::unique_ptr<rewright_generation, decltype(&rewright_generation_free)> generation_;
  std::size_t sequences_;
};

// A language model in a folder as onnxruntime-genai has it, on numbers of tokens.
//
//   rewright::LanguageModel model("smollm2");
//   rewright::Generation text = model.generate({{504, 3575, 282, 4649, 314}}, {{"max-tokens", "20"}});
//   for (auto tokens = text.next(); !tokens.empty(); tokens = text.next()) std::cout << tokens[0] << " ";
class LanguageModel {
 public:
  explicit LanguageModel(const std::string& folder, const std::string& device = "cpu", int threads = 0) {
    rewright_language_model* model = nullptr;
    check(rewright_language_model_open(folder.c_str(), device.c_str(), threads, &model));
    model_.reset(model, rewright_language_model_free);
  }
  // Options as `rewright complete --help` lists them, without the dashes.
  Generation generate(const std::vector<std::vector<std::int64_t>>& prompts,
                      const std::vector<std::pair<std::string, std::string>>& options = {}) const {
    rewright_generation* made = nullptr;
    check(rewright_generation_create(model_.get(), &made));
    Generation generation(made, prompts.size());
    for (const auto& [name, value] : options) check(rewright_generation_set(made, name.c_str(), value.c_str()));
    for (const std::vector<std::int64_t>& prompt : prompts)
      check(rewright_generation_add_prompt(made, prompt.data(), prompt.size()));
    return generation;
  }

 private:
  std::shared_ptr<rewright_language_model> model_;
};

}  // namespace v0
}  // namespace rewright
