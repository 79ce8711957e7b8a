#include "optimizer/certificates/certificate.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "graph/onnx/dialect.h"

namespace rewright::optimizer {

namespace {

using nlohmann::json;

constexpr const char* kCertificateFormat = "rewright certificate 1";

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t from_hexadecimal(const json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

MathClass math_from_name(const std::string& text) {
  if (const auto math = parse_math(text)) return *math;
  throw Error(ErrorCode::kBadInput, "unknown math class \"" + text + "\"");
}

json to_value(const Rewrite& rewrite) {
  return {{"rule", rewrite.rule},
          {"hash", hexadecimal(rewrite.rule_hash)},
          {"where", rewrite.where},
          {"swapped", rewrite.swapped},
          {"names", rewrite.names}};
}

Rewrite rewrite_from(const json& value) {
  return {value.at("rule").get<std::string>(), from_hexadecimal(value.at("hash")),
          value.at("where").get<std::vector<std::int64_t>>(), value.at("swapped").get<std::uint64_t>(),
          value.at("names").get<std::vector<std::string>>()};
}

std::vector<CertificateStep> steps_from(const json& list, int depth);

CertificateStep step_from(const json& value, int depth) {
  constexpr int kDeepest = 100;  // more than Protobuf reads
  if (depth > kDeepest) throw Error(ErrorCode::kBadInput, "bodies are nested too deep");
  CertificateStep step;
  if (value.contains("bodies")) {
    step.kind = CertificateStep::Kind::kBodies;
    for (const json& body : value.at("bodies"))
      step.bodies.push_back({body.at("value").get<ValueId>(), body.at("attribute").get<std::string>(),
                             body.at("node").get<std::string>(), steps_from(body.at("steps"), depth + 1)});
  } else if (value.contains("dialect")) {
    const bool is_raised = value.at("dialect") == name(Dialect::kOnnxRuntime);
    if (!is_raised && value.at("dialect") != name(Dialect::kStandard))
      throw Error(ErrorCode::kBadInput, "unknown dialect " + value.at("dialect").dump());
    step.kind = is_raised ? CertificateStep::Kind::kRaise : CertificateStep::Kind::kStandard;
    if (is_raised) step.calls = value.at("calls").get<std::vector<std::string>>();
  } else if (value.contains("contract")) {
    step.kind = CertificateStep::Kind::kContract;
    step.calls = value.at("contract").get<std::vector<std::string>>();
  } else if (value.contains("fold")) {
    step.kind = CertificateStep::Kind::kFold;
    step.folded = value.at("fold").get<std::vector<ValueId>>();
  } else {
    step.region = value.at("region").get<std::vector<std::uint32_t>>();
    for (const json& rewrite : value.at("rewrites")) step.rewrites.push_back(rewrite_from(rewrite));
    if (value.contains("chosen")) {
      step.kind = CertificateStep::Kind::kSaturate;
      step.chosen = value.at("chosen").get<std::vector<std::uint32_t>>();
    }
  }
  return step;
}

std::vector<CertificateStep> steps_from(const json& list, int depth) {
  std::vector<CertificateStep> steps;
  for (const json& step : list) steps.push_back(step_from(step, depth));
  return steps;
}

json to_value(const std::vector<CertificateStep>& steps) {
  json list = json::array();
  for (const CertificateStep& step : steps) {
    if (step.kind == CertificateStep::Kind::kFold) {
      list.push_back({{"fold", step.folded}});
      continue;
    }
    if (step.kind == CertificateStep::Kind::kStandard) {
      list.push_back({{"dialect", name(Dialect::kStandard)}});
      continue;
    }
    if (step.kind == CertificateStep::Kind::kRaise) {
      list.push_back({{"dialect", name(Dialect::kOnnxRuntime)}, {"calls", step.calls}});
      continue;
    }
    if (step.kind == CertificateStep::Kind::kContract) {
      list.push_back({{"contract", step.calls}});
      continue;
    }
    if (step.kind == CertificateStep::Kind::kBodies) {
      json bodies = json::array();
      for (const BodySteps& body : step.bodies)
        bodies.push_back(
            {{"value", body.result}, {"attribute", body.attribute}, {"node", body.name}, {"steps", to_value(body.steps)}});
      list.push_back({{"bodies", bodies}});
      continue;
    }
    json rewrites = json::array();
    for (const Rewrite& rewrite : step.rewrites) rewrites.push_back(to_value(rewrite));
    list.push_back({{"region", step.region}, {"rewrites", rewrites}});
    if (step.kind == CertificateStep::Kind::kSaturate) list.back()["chosen"] = step.chosen;
  }
  return list;
}

}  // namespace

std::string to_json(const Certificate& certificate) {
  const json whole = {{"format", kCertificateFormat},
                      {"before", hexadecimal(certificate.before)},
                      {"after", hexadecimal(certificate.after)},
                      {"math", std::string(name(certificate.match.math))},
                      {"for_training", certificate.match.for_training},
                      {"steps", to_value(certificate.steps)}};
  return whole.dump(1) + "\n";
}

Certificate parse_certificate(std::string_view text, const std::string& file) {
  try {
    const json whole = json::parse(text);
    if (whole.at("format") != kCertificateFormat)
      throw Error(ErrorCode::kBadInput,
                  "it is of format " + whole.at("format").dump() + ", this program reads \"" + kCertificateFormat + "\"", file);
    Certificate certificate;
    certificate.before = from_hexadecimal(whole.at("before"));
    certificate.after = from_hexadecimal(whole.at("after"));
    certificate.match.math = math_from_name(whole.at("math").get<std::string>());
    certificate.match.for_training = whole.at("for_training").get<bool>();
    certificate.steps = steps_from(whole.at("steps"), 0);
    return certificate;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON reader, or of a number's
    throw Error(ErrorCode::kBadInput, std::string("not a certificate: ") + error.what(), file);
  }
}

}  // namespace rewright::optimizer
