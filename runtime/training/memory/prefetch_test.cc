#include "runtime/training/memory/prefetch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "distribution/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/stream.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/parallel_step.h"
#include "runtime/training/testing.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::ModelBuilder;
using testing::run_as_processes;

using Order = std::vector<std::size_t>;

TEST_CASE("while a parameter is used, the one that the first step asked for next is fetched") {
  Gauge gauge;
  Order fetched;  // read while the queue is idle
  WorkQueue queue;
  Prefetch prefetch(
      [&](std::size_t parameter) {
        fetched.push_back(parameter);
        const Memory memory = allocated(1, gauge);
        memory->mutable_bytes()[0] = static_cast<std::byte>(parameter);
        return memory;
      },
      &queue);
  // Is it the right parameter, and have only these been fetched since the step began?
  const auto take = [&](std::size_t parameter, const Order& all) {
    CHECK(prefetch.take(parameter)->bytes()[0] == static_cast<std::byte>(parameter));
    queue.wait();
    CHECK(fetched == all);
  };
  const auto start = [&] {
    prefetch.start_step();
    fetched.clear();
  };
  start(), take(0, {0}), take(2, {0, 2}), take(1, {0, 2, 1}), take(2, {0, 2, 1, 2});
  start(), take(0, {0, 2}), take(2, {0, 2, 1}), take(1, {0, 2, 1, 2}), take(2, {0, 2, 1, 2});
  // Parameters that were fetched but not used are released.
  start(), take(0, {0, 2}), take(5, {0, 2, 5, 1}), take(1, {0, 2, 5, 1, 2});
  start(), take(0, {0, 2});
  CHECK(gauge.now == 1);
}

// A session that counts the requested parameters, and ends a run after a given number.
class EndingSession : public Session, public StreamingSession {
 public:
  EndingSession(std::unique_ptr<Session> inner, std::size_t first, Order& asked, const std::size_t& limit)
      : inner_(std::move(inner)), first_(first), asked_(asked), limit_(limit) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return inner_->run(inputs); }
  bool stream(TensorStream& tensors) override {
    Stream counted(tensors, *this);
    return dynamic_cast<StreamingSession&>(*inner_).stream(counted);
  }

 private:
  struct Stream : TensorStream {
    TensorStream& tensors;
    EndingSession& session;
    Stream(TensorStream& t, EndingSession& s) : tensors(t), session(s) {}

    Tensor input(std::size_t number) override {
      Tensor tensor = tensors.input(number);
      if (number < session.first_) return tensor;
      session.asked_.push_back(number - session.first_);
      if (session.asked_.size() == session.limit_) throw Error(ErrorCode::kCancelled, "the run ends here");
      return tensor;
    }
    std::span<std::byte> output(std::size_t number) override { return tensors.output(number); }
    void finished(std::size_t number) override { tensors.finished(number); }
  };

  std::unique_ptr<Session> inner_;
  std::size_t first_;  // the first input that is a parameter; all after it are
  Order& asked_;
  const std::size_t& limit_;
};

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// One process's training of a small perceptron with partitioned parameters.
class Training {
 public:
  Training(const Graph& model, Communicator& processes) : processes_(processes), graphs_(graphs_of(model)) {
    TrainedTensors start;
    for (const TrainedTensor& p : graphs_.parameters) start.parameters.push_back(model.value(p.in_model).constant);
    const auto prepare_gradients = [&](const Graph& graph) -> std::unique_ptr<Session> {
      const std::size_t first = graph.inputs().size() - graphs_.parameters.size();
      return std::make_unique<EndingSession>(cpu_backend().prepare(graph), first, asked_, limit_);
    };
    const auto prepare_update = [](const Graph& graph) { return cpu_backend().prepare(graph); };
    // Gradients are only exchanged at the end: before that, processes exchange only parameters.
    const ExchangeOptions exchange{.bucket_bytes = 0, .zero = 3};
    step_ = make_parallel_step(graphs_, options(), exchange, processes, static_cast<std::int64_t>(processes.size()),
                               {prepare_gradients, {}, prepare_update}, start);
  }

  double whole_step() {
    limit_ = kNoLimit;
    return advance();
  }
  // The bytes this process has sent in a step that ends after this many requests for parameters.
  std::uint64_t bytes_until(std::size_t requests) {
    limit_ = requests;
    const std::uint64_t before = processes_.bytes_sent();
    try {
      advance();
    } catch (const Error&) {
      return processes_.bytes_sent() - before;
    }
    throw Error(ErrorCode::kBadInput, "the step did not end behind " + std::to_string(requests) + " requests");
  }
  // Parameters that the last step asked for.
  const Order& asked() const { return asked_; }
  std::uint64_t bytes_of(std::size_t parameter) const {
    const std::span<const ValueId> inputs = graphs_.gradients.inputs();
    const TensorType& type = graphs_.gradients.value(inputs[inputs.size() - graphs_.parameters.size() + parameter]).type;
    return static_cast<std::uint64_t>(element_count(values(type.shape))) * byte_size(type.type);
  }

 private:
  static TrainingGraphOptions options() {
    TrainingGraphOptions o;
    o.update.method = UpdateMethod::kSgd;  // without states
    return o;
  }
  static TrainingGraphs graphs_of(const Graph& model) { return make_training_graphs(model, "", options()); }

  double advance() {
    asked_.clear();
    const auto number = [](double value) { return Tensor::scalar(DataType::kFloat, value); };
    std::mt19937 random(5);
    const std::vector<Tensor> shard{testing::random_tensor({4, 5}, random, DataType::kFloat),
                                    Tensor::from_integers(DataType::kInt64, {4}, std::vector<std::int64_t>{0, 1, 2, 0}),
                                    number(1), number(static_cast<double>(processes_.rank())), number(1)};
    return step_->advance({shard}, {number(0.1), number(1)}, false);
  }

  Communicator& processes_;
  TrainingGraphs graphs_;
  Order asked_;
  std::size_t limit_ = kNoLimit;
  std::unique_ptr<TrainingStep> step_;
};

// Layers of different sizes, so that a number of bytes identifies the parameters sent.
Graph perceptron() {
  ModelBuilder m(1);
  ValueId y = m.graph.add_input("x", {DataType::kFloat, {4, 5}});
  const std::vector<std::int64_t> widths{5, 17, 13, 11, 3};
  for (std::size_t n = 0; n + 1 < widths.size(); ++n) {
    const std::string number = std::to_string(n);
    y = m.b.add("Gemm", {y, m.weights({widths[n], widths[n + 1]}, "w" + number), m.weights({widths[n + 1]}, "b" + number)});
    if (n + 2 < widths.size()) y = m.b.add("Tanh", {y});
  }
  m.graph.add_output("y", y);
  return std::move(m.graph);
}

// Observations of one process; bytes by the number of requests after which the step ended.
struct Seen {
  Order order;
  std::vector<std::uint64_t> first_step, later_steps, by_parameter;
  double loss_before = 0, loss_after = 0;
};

TEST_CASE("from its second step on, a process gathers the next parameter before a step of the graph asks for it") {
  const Graph model = perceptron();
  for (const std::size_t count : {2, 3}) {
    INFO(count << " processes");
    std::vector<Seen> seen(count);
    run_as_processes(count, [&](Communicator& processes) {
      Seen& mine = seen[processes.rank()];
      for (const std::size_t requests : {1, 2, 5}) mine.first_step.push_back(Training(model, processes).bytes_until(requests));
      Training training(model, processes);
      mine.loss_before = training.whole_step();
      mine.order = training.asked();
      for (std::size_t n = 1; n <= mine.order.size(); ++n) mine.later_steps.push_back(training.bytes_until(n));
      mine.loss_after = training.whole_step();
      for (const std::size_t p : mine.order) mine.by_parameter.push_back(training.bytes_of(p));
    });
    const Seen& one = seen[0];
    REQUIRE(one.order.size() > 8);  // inner layers' weights are requested in the forward and the backward pass
    for (const Seen& s : seen) {
      CHECK(s.order == one.order);
      CHECK((std::isfinite(s.loss_before) && s.loss_after < s.loss_before));
    }
    // In a ring, each byte of a parameter is sent to all processes but its owner.
    const auto gathered = [&](std::size_t parameters) {
      return (count - 1) * std::accumulate(one.by_parameter.begin(),
                                           one.by_parameter.begin() + static_cast<std::ptrdiff_t>(parameters),
                                           std::uint64_t{0});
    };
    const auto sent = [&](std::vector<std::uint64_t> Seen::*which, std::size_t n) {
      std::uint64_t bytes = 0;
      for (const Seen& s : seen) bytes += (s.*which)[n];
      return bytes;
    };
    const std::vector<std::size_t> requests{1, 2, 5};
    for (std::size_t n = 0; n < requests.size(); ++n) CHECK(sent(&Seen::first_step, n) == gathered(requests[n]));
    for (std::size_t n = 1; n <= one.order.size(); ++n)
      CHECK(sent(&Seen::later_steps, n - 1) == gathered(std::min(n + 1, one.order.size())));
  }
}

}  // namespace
}  // namespace rewright::training
