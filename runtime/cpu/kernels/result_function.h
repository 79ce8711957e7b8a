// A function that a kernel applies to its results, in place.
#pragma once

#include "runtime/cpu/loops/product_loops.h"
#include "runtime/cpu/loops/rows.h"

namespace rewright::cpu {

class ResultFunction {
 public:
  ResultFunction() = default;  // none
  explicit ResultFunction(RowLoops::Unary loop) : loop_(loop) {}
  ResultFunction(RowFunction function, float alpha, float beta, Isa isa)
      : apply_(loops_for<ProductLoops>(isa).apply), function_(function), alpha_(alpha), beta_(beta) {}

  explicit operator bool() const { return loop_ != nullptr || apply_ != nullptr; }
  void operator()(float* y, std::int64_t n) const {
    if (loop_ != nullptr) return loop_(y, y, n);
    apply_(function_, alpha_, beta_, y, 0, 1, n);
  }

 private:
  RowLoops::Unary loop_ = nullptr;
  decltype(ProductLoops::apply) apply_ = nullptr;
  RowFunction function_{};
  float alpha_ = 0, beta_ = 0;
};

}  // namespace rewright::cpu
