// Times every all-reduce strategy for vectors of the given lengths, under mpirun, and prints the times as JSON:
//   mpirun -n N rewright_measure_all_reduce ROUNDS BYTES ...
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "distribution/all_reduce.h"

namespace {

using namespace rewright;
using namespace rewright::distribution;

// The seconds that each round takes until the last process has its sum, sorted.
std::vector<double> seconds(Communicator& processes, const AllReduce& how, std::vector<float>& values, int rounds) {
  using Clock = std::chrono::steady_clock;
  const auto bytes = std::as_writable_bytes(std::span(values));
  std::vector<double> result;
  for (int round = 0; round < rounds; ++round) {
    std::fill(values.begin(), values.end(), 1.0F);
    processes.barrier();
    const auto start = Clock::now();
    all_reduce(processes, how, bytes, DataType::kFloat);
    processes.barrier();
    result.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    if (!values.empty() && values.back() != static_cast<float>(processes.size()))
      throw Error(ErrorCode::kBadInput, "a sum is wrong");
  }
  std::sort(result.begin(), result.end());
  return result;
}

nlohmann::json measured(Communicator& processes, std::string_view name, std::size_t length, int rounds) {
  const AllReduce how = all_reduce_from_name(name);
  std::vector<float> values(length / sizeof(float));
  seconds(processes, how, values, 1);
  const std::uint64_t before = processes.bytes_sent();
  const std::vector<double> times = seconds(processes, how, values, rounds);
  double sent[] = {static_cast<double>(processes.bytes_sent() - before)};
  processes.sum(std::span<double>(sent));
  const std::size_t bytes = values.size() * sizeof(float);
  const LongestChain chain = longest_chain(how, processes.size(), static_cast<double>(bytes));
  return {{"strategy", name},
          {"bytes", bytes},
          {"best", times.front()},
          {"median", times[times.size() / 2]},
          {"sent", sent[0] / rounds},
          {"formula", all_reduce_bytes(how, processes.size(), bytes)},
          {"chain_messages", chain.messages},
          {"chain_bytes", chain.bytes}};
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 3) throw Error(ErrorCode::kUsage, "usage: rewright_measure_all_reduce ROUNDS BYTES ...");
    const auto processes = make_communicator();
    std::vector<std::string> names(all_reduce_names().begin(), all_reduce_names().end());
    names.back() += ":2";  // all processes run on one machine: every two of them stand for a node
    nlohmann::json results = nlohmann::json::array();
    for (int n = 2; n < count; ++n)
      for (const std::string& name : names)
        results.push_back(measured(*processes, name, std::strtoull(arguments[n], nullptr, 10), std::atoi(arguments[1])));
    if (processes->rank() == 0) std::cout << results.dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "rewright_measure_all_reduce: " << error.what() << "\n";
    return 1;
  }
}
