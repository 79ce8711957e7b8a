// Results of recognizing functions of nodes (found by sampling) and their definitions for operands of certain sizes, cached for
// all plans of a graph.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::cpu {

// A cache that drops results unused for a long time. Thread-safe.
class Recollection {
 public:
  // Keeps at least the `count` results used last, and at most twice as many.
  explicit Recollection(std::size_t count) : count_(count) {}

  // The result of `find` for this key, cached.
  template <class F>
  auto recall(std::uint64_t key, const F& find) -> decltype(find()) {
    using Result = decltype(find());
    {
      const std::lock_guard lock(mutex_);
      if (const std::any* const known = look_up(key)) return std::any_cast<const Result&>(*known);
    }
    Result result = find();
    const std::lock_guard lock(mutex_);
    add(key, result);
    ++finds_;
    return result;
  }
  // The number of results that were not known.
  std::size_t finds() {
    const std::lock_guard lock(mutex_);
    return finds_;
  }

 private:
  const std::any* look_up(std::uint64_t key) {
    if (const auto known = recent_.find(key); known != recent_.end()) return &known->second;
    const auto known = older_.find(key);
    if (known == older_.end()) return nullptr;
    std::any value = std::move(known->second);
    add(key, std::move(value));
    return &recent_.at(key);
  }
  void add(std::uint64_t key, std::any value) {
    if (recent_.size() >= count_) {
      older_ = std::exchange(recent_, {});
      recent_.reserve(count_);
    }
    recent_.insert_or_assign(key, std::move(value));
  }

  const std::size_t count_;
  std::size_t finds_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::any> recent_, older_;
};

// Facts about nodes by address: plans of a session share node objects where attributes do not depend on sizes. Nodes that
// nobody else has any more make place for others. Thread-safe.
class NodeFacts {
 public:
  // A hash of the node's operator and attributes.
  std::uint64_t operation(const std::shared_ptr<const Node>& node);
  // The traits that were kept for operands of these kinds (traits_name in recognitions.cc).
  std::optional<planning::Traits> traits(const std::shared_ptr<const Node>& node, std::uint64_t kinds);
  void keep(const std::shared_ptr<const Node>& node, std::uint64_t kinds, const planning::Traits& traits);
  // Is the node of a graph with open sizes free of them (is_free_of_sizes)? `find` tells if that is not known.
  bool is_free(const std::shared_ptr<const Node>& node, const std::function<bool()>& find);

 private:
  struct Known {
    std::shared_ptr<const Node> node;  // alive, so that its address is no other node's
    std::uint64_t operation = 0, kinds = 0;
    std::optional<planning::Traits> traits;  // for operands of these kinds
    std::optional<bool> free;
  };
  // Null: there is no place for the node.
  Known* known(const std::shared_ptr<const Node>& node);

  static constexpr std::size_t kPlaces = 4096, kTries = 8;
  std::mutex mutex_;
  std::vector<Known> places_;  // by address, from the first of some places on
};

struct Recognitions {
  NodeFacts nodes;
  Recollection functions{4096};  // independent of sizes
  // For certain operand sizes; some kilobytes each. The layers of a network share them, whatever the sizes.
  Recollection definitions{384}, expressions{192}, programs{96}, movements{384};
};

// A hash of the node's operator and attributes, without keeping it (NodeFacts::operation).
std::uint64_t operation_name(const Node& node);

// A name for a node's operation, and for the types and sizes of its operands.
std::uint64_t operands_name(const Graph& graph, const Node& node, std::uint64_t operation);

// The traits that `find` returns for the node; known already if another node of the graph, or this one at other sizes above 1,
// has the same operator and attributes. `open`: the node of which this one was made by giving sizes numbers; null: none, or not
// known.
planning::Traits recalled_traits(Recognitions& recognitions, const Graph& graph, const std::shared_ptr<const Node>& node,
                                 const std::function<planning::Traits()>& find,
                                 const std::shared_ptr<const Node>* open = nullptr);

}  // namespace rewright::cpu
