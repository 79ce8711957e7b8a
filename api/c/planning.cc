// Plans for many processes.
#include "api/planning.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "api/c/handles.h"

using rewright::c::guarded;
using rewright::c::required;

extern "C" {

rewright_status rewright_planning_create(rewright_planning** planning) {
  return guarded([&] {
    required(planning, "planning") = nullptr;
    *planning = new rewright_planning;
  });
}

rewright_status rewright_planning_set(rewright_planning* planning, const char* name, const char* value) {
  return guarded([&] {
    rewright::api::set_option(rewright::api::plan_options(), required(planning, "planning").request, &required(name, "name"),
                              &required(value, "value"));
  });
}

void rewright_planning_free(rewright_planning* planning) { delete planning; }

rewright_status rewright_make_plan(const rewright_model* model, const rewright_planning* planning, rewright_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    const rewright_model& given = required(model, "model");
    rewright::api::MadePlan made =
        rewright::api::make_plan(given.graph, given.name, required(planning, "planning").request, "");
    *plan = new rewright_plan{std::move(made.text), std::move(made.facts)};
  });
}

const char* rewright_plan_text(const rewright_plan* plan) { return plan ? plan->text.c_str() : ""; }
const char* rewright_plan_report(const rewright_plan* plan) { return plan ? plan->report.c_str() : ""; }
void rewright_plan_free(rewright_plan* plan) { delete plan; }

rewright_status rewright_check_plan(const rewright_model* model, const char* file, char** reason) {
  return guarded([&] {
    required(reason, "reason") = nullptr;
    const rewright_model& given = required(model, "model");
    const auto check = rewright::api::check_plan(given.graph, given.name, &required(file, "file")).check;
    const std::string text = check.proved ? "" : check.reason;
    *reason = static_cast<char*>(std::malloc(text.size() + 1));
    if (!*reason) throw std::bad_alloc();
    std::memcpy(*reason, text.c_str(), text.size() + 1);
  });
}

}  // extern "C"
