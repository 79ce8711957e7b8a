#include "api/priced_device.h"

#include <mutex>
#include <utility>

namespace rewright::api {

namespace {

class PricedDevice final : public Device {
 public:
  PricedDevice(NodePrice price, std::unique_ptr<Device> here) : price_(std::move(price)), here_(std::move(here)) {}

  std::string name() const override { return here_->name() + ", by prices given"; }
  std::string identity() const override { return name(); }  // of no database: nothing is measured
  bool measures() const override { return false; }
  void end_at(std::chrono::steady_clock::time_point time) override { here_->end_at(time); }
  bool supports(const Graph& graph, const Node& node) const override { return here_->supports(graph, node); }

  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) {
      std::optional<double> sum = 0;
      for (const auto& node : sample.graph.nodes()) {
        const std::optional<double> price = price_(sample.graph, *node);
        sum = sum && price ? std::optional(*sum + *price) : std::nullopt;
      }
      seconds.push_back(sum);
    }
    return seconds;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph>, const TimingOptions&) override {
    throw Error(ErrorCode::kMissing, "given prices are no times of whole graphs", name());
  }

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override { return here_->run(graph, inputs); }
  CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double seconds) override {
    return here_->run_checked(graph, inputs, seconds);
  }

 private:
  std::mutex mutex_;
  NodePrice price_;
  std::unique_ptr<Device> here_;
};

}  // namespace

std::unique_ptr<Device> make_priced_device(NodePrice price, std::unique_ptr<Device> here) {
  return std::make_unique<PricedDevice>(std::move(price), std::move(here));
}

}  // namespace rewright::api
