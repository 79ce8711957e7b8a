#include "rules/taso/ranks.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::rules::taso {

namespace {

constexpr std::int32_t kMaximumRank = 8;

[[noreturn]] void contradiction(std::size_t a, std::size_t b) {
  throw Error(ErrorCode::kBadInput, "it is ill-typed: a tensor has " + std::to_string(a) + " axes and " + std::to_string(b));
}

}  // namespace

Ranks::Ranks(const RuleText& rule) {
  for (const bool target : {false, true}) {
    const Side& side = target ? rule.target : rule.source;
    for (std::size_t i = 0; i < side.size(); ++i) visit(target, side[i], static_cast<std::int32_t>(i));
  }
  for (const auto& [source, target] : rule.outputs) join(number(false, source), number(true, target));
  for (RankClass& c : classes_) {
    if (c.is_product && c.rank && *c.rank < 2) contradiction(*c.rank, 2);
    if (!c.rank && c.is_product && c.front > 0) c.rank = std::max<std::size_t>(2, c.front);
    if (c.rank && c.front > *c.rank) contradiction(*c.rank, c.front);
  }
}

std::size_t Ranks::number(bool target, const Reference& tensor) {
  const auto [found, inserted] = numbers_.try_emplace({tensor.is_input() ? 0
                                                       : target          ? 2
                                                                         : 1,
                                                       {tensor.op, tensor.output}},
                                                      equal_.size());
  if (inserted) {
    equal_.add();
    classes_.emplace_back().number = found->second;
  }
  return found->second;
}

std::size_t Ranks::root(std::size_t n) const { return equal_.find(static_cast<std::uint32_t>(n)); }

void Ranks::join(std::size_t a, std::size_t b) {
  a = root(a), b = root(b);
  if (a == b) return;
  equal_.merge_into(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b));
  classes_[a].is_product |= classes_[b].is_product;
  classes_[a].front = std::max(classes_[a].front, classes_[b].front);
  if (classes_[b].rank) set(a, *classes_[b].rank);
}

void Ranks::set(std::size_t n, std::size_t rank) {
  RankClass& c = classes_[root(n)];
  if (c.rank && *c.rank != rank) contradiction(*c.rank, rank);
  c.rank = rank;
}

const RankClass& Ranks::of(bool target, const Reference& tensor) { return classes_[root(number(target, tensor))]; }

void Ranks::visit(bool target, const Operation& op, std::int32_t index) {
  const auto input = [&](std::size_t i) { return number(target, op.inputs[i]); };
  const std::size_t result = number(target, {index, 0});
  switch (op.type) {
    case Type::kConv:
    case Type::kMaxPool:
    case Type::kAveragePool:
    case Type::kEnlarge:
    case Type::kMergeGroups:
    case Type::kIdentityKernel:
    case Type::kPoolKernel:
      for (std::size_t i = 0; i < op.inputs.size(); ++i) set(input(i), 4);
      set(result, 4);
      break;
    case Type::kIdentityMatrix:
      set(result, 2);
      break;
    case Type::kConcat:
    case Type::kTranspose: {
      const auto rank = static_cast<std::size_t>(op.get(Key::kRank, 1, kMaximumRank));
      for (std::size_t i = 0; i < op.inputs.size(); ++i) set(input(i), rank);
      set(result, rank);
      break;
    }
    case Type::kSplit: {
      const auto axis = static_cast<std::size_t>(op.get(Key::kAxis, 0, kMaximumRank - 1));
      for (std::int32_t o = 0; o < static_cast<std::int32_t>(op.outputs); ++o) join(input(0), number(target, {index, o}));
      RankClass& c = classes_[root(result)];
      c.front = std::max(c.front, axis + 1);
      break;
    }
    case Type::kScale:
      join(input(0), result);
      set(input(1), 0);
      break;
    case Type::kMatMul:
      join(input(0), input(1));
      join(input(0), result);
      classes_[root(result)].is_product = true;
      break;
    default:  // element by element
      for (std::size_t i = 0; i < op.inputs.size(); ++i) join(input(i), result);
      break;
  }
}

}  // namespace rewright::rules::taso
