// Training.
#include "api/training.h"

#include "api/c/handles.h"
#include "api/c/tensors.h"

using rewright::c::guarded;
using rewright::c::required;

extern "C" {

rewright_status rewright_training_create(rewright_training** training) {
  return guarded([&] {
    required(training, "training") = nullptr;
    *training = new rewright_training;
  });
}

rewright_status rewright_training_set(rewright_training* training, const char* name, const char* value) {
  return guarded([&] {
    rewright::api::set_option(rewright::api::training_options(), required(training, "training").request,
                              &required(name, "name"), &required(value, "value"));
  });
}

rewright_status rewright_training_add_data(rewright_training* training, int held_out, const char* name,
                                           const rewright_tensor* examples) {
  return guarded([&] {
    rewright::api::TrainingRequest& request = required(training, "training").request;
    const std::string column = &required(name, "name");
    rewright::Tensor tensor = rewright::c::given_tensor(required(examples, "examples"), "data: " + column);
    (held_out != 0 ? request.validation : request.data).tensors.insert_or_assign(column, std::move(tensor));
  });
}

rewright_status rewright_training_set_progress(rewright_training* training, rewright_step_told told, void* user) {
  return guarded([&] {
    required(training, "training").told = told;
    training->user = user;
  });
}

void rewright_training_free(rewright_training* training) { delete training; }

rewright_status rewright_train(const rewright_model* model, const rewright_training* training, rewright_trained** trained) {
  return guarded([&] {
    required(trained, "trained") = nullptr;
    const rewright_model& given = required(model, "model");
    const rewright_training& asked = required(training, "training");
    std::stop_source stop;
    const auto step = [&](const rewright::training::StepReport& r) {
      const rewright_step s{r.step, r.steps, r.epoch, r.loss, r.rate, r.examples_per_second, r.skipped ? 1 : 0};
      if (asked.told && asked.told(&s, asked.user) != 0) stop.request_stop();
    };
    rewright::api::FinishedTraining done =
        rewright::api::train_in_program(given.graph, asked.request, given.name, stop.get_token(), {.step = step});
    *trained = new rewright_trained{rewright_model(std::move(done.graph).value(), given.name, given.is_rewritten), done.loss,
                                    std::move(done.facts)};
  });
}

const rewright_model* rewright_trained_model(const rewright_trained* trained) { return trained ? &trained->model : nullptr; }
double rewright_trained_loss(const rewright_trained* trained) { return trained ? trained->loss : 0; }
const char* rewright_trained_report(const rewright_trained* trained) { return trained ? trained->report.c_str() : ""; }
void rewright_trained_free(rewright_trained* trained) { delete trained; }

}  // extern "C"
