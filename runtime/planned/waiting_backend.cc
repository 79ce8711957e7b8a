#include "runtime/planned/waiting_backend.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "plans/partition/moved_shares.h"
#include "runtime/mixed.h"
#include "runtime/planned/planner.h"

namespace rewright::runtime {

namespace {

class WaitingSession final : public Session {
 public:
  WaitingSession(std::unique_ptr<Session> session, double seconds) : session_(std::move(session)), seconds_(seconds) {}
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    std::vector<Tensor> results = session_->run(inputs);
    std::this_thread::sleep_until(end);
    return results;
  }
  std::size_t peak_bytes() const override { return session_->peak_bytes(); }

 private:
  std::unique_ptr<Session> session_;
  const double seconds_;
};

}  // namespace

std::unique_ptr<Session> WaitingBackend::prepare(const Graph& graph, const SessionOptions& options) const {
  const plans::OperatorSeconds price = device_seconds(machine_);
  const std::vector<double> moved = plans::moved_shares(graph);
  double seconds = 0;
  for (std::size_t n = 0; n < moved.size(); ++n)
    if (const Node& node = *graph.nodes()[n]; node.op)
      seconds += price(*node.op, node.attributes, graph.operand_types(node), moved[n]);
  return std::make_unique<WaitingSession>(prepare_session(backend_, graph, options), seconds);
}

}  // namespace rewright::runtime
