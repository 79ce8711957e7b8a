// A backend whose sessions take as long as a device of a machine would: they compute on another backend, and wait for the rest
// of the time. So processes that share cores can be timed as if each had a device, if that is slower than a core.
#pragma once

#include <memory>
#include <string>

#include "plans/machines/machine.h"
#include "runtime/session.h"

namespace rewright::runtime {

class WaitingBackend final : public Backend {
 public:
  // Both must outlive this object.
  WaitingBackend(const Backend& backend, const plans::Machine& machine) : backend_(backend), machine_(machine) {}
  std::string name() const override { return backend_.name(); }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override;

 private:
  const Backend& backend_;
  const plans::Machine& machine_;
};

}  // namespace rewright::runtime
