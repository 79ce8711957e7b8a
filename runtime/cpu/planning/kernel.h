// Kernels: what a step of a plan executes, and how a family of operators plans its steps.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/base/layout.h"
#include "runtime/cpu/base/workers.h"
#include "runtime/planning/facts.h"
#include "runtime/session.h"

namespace rewright::cpu {

class Planner;

struct Call {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;
  const Workers& workers;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // What runs in pieces uses scratch memory by thread: a plan is executed with as many as it was made for.
  virtual void run(const Call& call) const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  // Whose it is, with its version and the library's own name for it.
  virtual std::string source() const { return "a kernel of Rewright"; }
  // How many times the rounding of plain sums its results may have: transforms add and subtract what is larger than the sums.
  virtual double rounding() const { return 1; }
};

using planning::Chain;

// A node that a kernel has taken. It may take over the elementwise chain behind it, and then adds its steps.
class NodePlan : public planning::Taken {
 public:
  virtual bool absorb(Planner&, const Chain&) { return false; }
  // The same for the elementwise chain before its first input, whose start it then reads.
  virtual bool absorb_before(Planner&, const Chain&) { return false; }
  // The same for the group that computes what it adds to its result.
  virtual bool absorb_addend(Planner&, ValueId, std::unique_ptr<planning::Taken>&) { return false; }
  // The same for a node that uses its result alone.
  virtual bool absorb_next(Planner&, const Node&) { return false; }
  // The same for a node `rows` that uses its result alone, and the node planned as `next` that uses that one's alone.
  virtual bool absorb_rows(Planner&, const Node&, const NodePlan&) { return false; }
  // The same for a node that only moves elements of its result.
  virtual bool absorb_move(Planner&, const Node&) { return false; }
  // `result` is the node's first output, or that of the last chain taken over.
  virtual void emit(Planner& planner, ValueId result) = 0;
};

// Null if these types or attributes are not served.
using MakeNodePlan = std::function<std::unique_ptr<NodePlan>(Planner& planner, const Node& node)>;
using KernelTable = std::map<std::string, MakeNodePlan, std::less<>>;

void register_concatenations(KernelTable& table);    // concatenation.cc
void register_convolutions(KernelTable& table);      // convolution.cc
void register_pools(KernelTable& table);             // pooling.cc
void register_products(KernelTable& table);          // products.cc
void register_quantized(KernelTable& table);         // quantized.cc
void register_random_bits(KernelTable& table);       // random_bits.cc
void register_scatters(KernelTable& table);          // scatter.cc
void register_weight_gradients(KernelTable& table);  // weight_gradient.cc
const KernelTable& kernel_table();

// A node's attributes by the names of the operator's fields. The name must exist and have that type.
class AttributeReader {
 public:
  explicit AttributeReader(const Node& node) : node_(node) {}
  std::vector<std::int64_t> list(std::string_view name) const { return values(get<Indices>(name)); }
  std::int64_t number(std::string_view name) const { return get<Index>(name).value(); }
  double real(std::string_view name) const { return get<Real>(name).value; }
  bool flag(std::string_view name) const { return get<bool>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }

 private:
  template <class T>
  const T& get(std::string_view name) const {
    return std::get<T>(node_.attributes.at(node_.op->field(name).value()));
  }
  const Node& node_;
};

}  // namespace rewright::cpu
