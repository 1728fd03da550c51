// Recurrent layers through time, and back. Start reading at `Steps`.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace adjoint::kernels::recurrence {

enum class Kind { Lstm, Gru, Tanh, Relu };
/// Blocks of `hidden` numbers that the inputs give to a step, and those that are kept of one for the way
/// back.
constexpr int64_t gates_of(Kind kind) { return kind == Kind::Lstm ? 4 : kind == Kind::Gru ? 3 : 1; }
constexpr int64_t kept_of(Kind kind) { return kind == Kind::Lstm || kind == Kind::Gru ? 4 : 0; }

/// Where the rows of each step lie, in the order in which steps are made. Sequences are numbered so that the
/// first `rows` of them take part in a step: going forwards they end from the last one on, going backwards
/// they begin so.
struct Steps {
  struct Step {
    int64_t first, rows;
  };
  Kind kind;
  int64_t batch, hidden, total = 0;
  std::vector<Step> steps;

  template <class F>
  void each_tensor(const F&) {}  // it holds none
};

/// x (total, gates) is what inputs and biases give; h0 and c0 (batch, hidden) the first state; weight (gates,
/// hidden) and, for a GRU, bias multiply the state. Into y and c (total, hidden) go the states behind each
/// step, into `kept` the gates: i, f, g, o of an LSTM, r, z, n and h W_nᵀ + b_n of a GRU. All are float or
/// double, row-major.
void forward(const Steps& s, const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight,
             const Tensor& bias, const Tensor& y, const Tensor& c, const Tensor& kept);

/// From cotangents of y and c, of which one may be undefined: those of x, h0 and c0, and what the products of
/// the weight take: the cotangents of its results (those of x but for a GRU), and the states that it was
/// multiplied with.
struct Cotangents {
  Tensor x, h0, c0, products, states;
};
Cotangents backward(const Steps& s, const Tensor& g, const Tensor& g_c, const Tensor& h0, const Tensor& c0,
                    const Tensor& weight, const Tensor& y, const Tensor& c, const Tensor& kept);

}  // namespace adjoint::kernels::recurrence
