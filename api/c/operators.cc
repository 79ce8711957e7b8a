// Operators of callers: their callbacks as procedures.
#include <algorithm>
#include <string>

#include "api/c/node.h"
#include "operators/contrib/contrib.h"

using rewright::DataType;
using rewright::Error;
using rewright::ErrorCode;
using rewright::Tensor;
using rewright::c::guarded;
using rewright::c::required;
using rewright::operators::Procedure;

namespace {

struct Callbacks {
  std::string domain;
  rewright_infer infer;
  rewright_compute compute;
  void* user;
};

void describe_all(rewright::c::AllDescribed& all, const Procedure::KnownTypes& types) {
  for (const auto& type : types) {
    if (!type)
      rewright::c::describe_unknown(all, "", DataType::kUndefined);
    else
      rewright::c::describe(all, "", type->type, type->sizes, std::vector<std::string>(type->sizes.size()));
  }
}

Error failed(const rewright_node& node, const std::string& what) {
  const std::string& said = node.failure;
  return Error(ErrorCode::kBadInput, said.empty() ? "its callback failed to " + what : said, "operator " + node.op);
}

Procedure::KnownTypes infer(const Callbacks& callbacks, const rewright::operators::OnnxAttributes& attributes,
                            const Procedure::KnownTypes& inputs, std::size_t outputs) {
  rewright_node node(attributes.type(), callbacks.domain, rewright::c::read_attributes(attributes));
  describe_all(node.inputs, inputs);
  Procedure::KnownTypes said(outputs);
  describe_all(node.outputs, said);
  node.said = &said;
  if (callbacks.infer(&node, callbacks.user) != 0) throw failed(node, "infer types");
  return said;
}

rewright_tensor view(const Tensor& tensor) {
  return {static_cast<std::int32_t>(tensor.type()), static_cast<std::int32_t>(tensor.sizes().size()), tensor.sizes().data(),
          const_cast<std::byte*>(tensor.bytes().data()), tensor.byte_count()};
}

void compute(const Callbacks& callbacks, rewright::operators::Call& call) {
  Procedure::KnownTypes types;
  std::vector<rewright_tensor> given;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    types.emplace_back();
    if (!call.has_input(i)) {
      given.push_back({0, -1, nullptr, nullptr, 0});
      continue;
    }
    const Tensor& tensor = call.tensor(i);
    if (rewright::byte_size(tensor.type()) == 0)
      throw Error(ErrorCode::kUnsupported, "an operator of the caller's own reads no strings", "input " + std::to_string(i));
    types.back() = {tensor.type(), tensor.sizes()};
    given.push_back(view(tensor));
  }
  const Procedure::KnownTypes made = infer(callbacks, call, types, call.output_count());
  rewright_node node(call.type(), callbacks.domain, rewright::c::read_attributes(call));
  describe_all(node.inputs, types);
  describe_all(node.outputs, made);
  std::vector<Tensor> results;
  std::vector<rewright_tensor> places;
  for (std::size_t o = 0; o < made.size(); ++o) {
    const bool is_known =
        made[o] && std::all_of(made[o]->sizes.begin(), made[o]->sizes.end(), [](std::int64_t size) { return size >= 0; });
    if (!is_known)
      throw Error(ErrorCode::kBadInput, "its callback does not say the sizes of output " + std::to_string(o),
                  "operator " + call.type());
    results.emplace_back(made[o]->type, made[o]->sizes);
    rewright_tensor place = view(results.back());
    place.data = results.back().mutable_bytes().data();
    places.push_back(place);
  }
  if (callbacks.compute(&node, given.data(), places.data(), callbacks.user) != 0) throw failed(node, "compute");
  for (Tensor& result : results) call.give(std::move(result));
}

}  // namespace

extern "C" {

rewright_status rewright_operators_create(rewright_operators** operators) {
  return guarded([&] {
    required(operators, "operators") = nullptr;
    *operators = new rewright_operators;
  });
}

rewright_status rewright_operators_add(rewright_operators* operators, const char* domain, const char* type,
                                       rewright_infer infer_types, rewright_compute compute_elements, void* user) {
  return guarded([&] {
    rewright_operators& o = required(operators, "operators");
    const std::string of = domain ? domain : "", name = &required(type, "type");
    if (!infer_types || !compute_elements)
      throw Error(ErrorCode::kUsage, "an operator needs both callbacks", "operator " + name);
    if (of.empty() || of == "ai.onnx")
      throw Error(ErrorCode::kUsage, "ONNX's own domain cannot have operators of others", "operator " + name,
                  "give it a domain of your own");
    using rewright::operators::find_contrib, rewright::operators::find_onnx, rewright::operators::find_procedure;
    if (find_onnx(of, name) || find_contrib(of, name) || find_procedure(of, name))
      throw Error(ErrorCode::kUsage, "this library has that operator", "operator " + of + "." + name);
    if (o.procedures.find(of, name)) throw Error(ErrorCode::kUsage, "is there already", "operator " + of + "." + name);
    const Callbacks callbacks{of, infer_types, compute_elements, user};
    Procedure procedure;
    procedure.run = [callbacks](rewright::operators::Call& call) { compute(callbacks, call); };
    procedure.infer = [callbacks](const rewright::operators::OnnxAttributes& attributes, const Procedure::KnownTypes& inputs,
                                  std::size_t outputs) { return infer(callbacks, attributes, inputs, outputs); };
    o.procedures.add_foreign(of, name, std::move(procedure));
  });
}

void rewright_operators_free(rewright_operators* operators) { delete operators; }

}  // extern "C"
