// Proofs that two models are equal.
#include "api/proving.h"

#include <nlohmann/json.hpp>

#include "api/c/handles.h"
#include "api/options.h"

using rewright::c::guarded;
using rewright::c::required;

struct rewright_proving {
  rewright::api::ProvingRequest request;
};

struct rewright_proof {
  std::string verdict, report;
};

extern "C" {

rewright_status rewright_proving_create(rewright_proving** proving) {
  return guarded([&] {
    required(proving, "proving") = nullptr;
    *proving = new rewright_proving;
  });
}

rewright_status rewright_proving_set(rewright_proving* proving, const char* name, const char* value) {
  return guarded([&] {
    rewright::api::set_option(rewright::api::proving_options(), required(proving, "proving").request, &required(name, "name"),
                              &required(value, "value"));
  });
}

void rewright_proving_free(rewright_proving* proving) { delete proving; }

rewright_status rewright_prove(const char* first, const char* second, const rewright_proving* proving, rewright_proof** proof) {
  return guarded([&] {
    required(proof, "proof") = nullptr;
    rewright::api::ProvingRequest request = required(proving, "proving").request;
    request.first = &required(first, "first"), request.second = &required(second, "second");
    request.threads = rewright::runtime::usable_threads(0);
    const nlohmann::json facts = rewright::api::prove_models(request);
    *proof = new rewright_proof{facts.at("verdict"), facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  });
}

const char* rewright_proof_verdict(const rewright_proof* proof) { return proof ? proof->verdict.c_str() : ""; }
const char* rewright_proof_report(const rewright_proof* proof) { return proof ? proof->report.c_str() : ""; }
void rewright_proof_free(rewright_proof* proof) { delete proof; }

rewright_status rewright_check_proof(const char* first, const char* second, const char* certificate, int* accepted) {
  return guarded([&] {
    required(accepted, "accepted") = 0;
    const nlohmann::json facts = rewright::api::check_equality(
        {&required(first, "first"), &required(second, "second"), &required(certificate, "certificate")}, {});
    *accepted = facts.at("accepted").get<bool>() ? 1 : 0;
  });
}

}  // extern "C"
