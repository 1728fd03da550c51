// What the rows of recurrence make, and their rule: start reading at `rule`.
#include "ops/recurrence.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/product.h"
#include "kernels/recurrence.h"
#include "kernels/reduction.h"
#include "kernels/slices.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/trigonometric.h"

namespace adjoint {

namespace kernel = kernels::recurrence;
using kernel::Kind;
using kernel::Steps;

namespace {

Kind kind_of_name(Text name, const char* op) {
  if (name == "lstm") return Kind::Lstm;
  if (name == "gru") return Kind::Gru;
  if (name == "tanh") return Kind::Tanh;
  if (name == "relu") return Kind::Relu;
  fail(op, "(): expected 'lstm', 'gru', 'tanh' or 'relu', but got '", name, "'");
}

/// The steps of results in (steps, batch, …), or (rows, …) with the rows of each step.
Steps steps_of(IntList sizes, IntList heights, bool reverse, Kind kind, IntList hidden, const char* op) {
  if (hidden.size() != 2)
    fail(op, "(): expected a hidden state of shape (batch, hidden), but got shape ", to_string(hidden));
  Steps s{kind, hidden[0], hidden[1], 0, {}};
  if (heights.empty()) {
    if (sizes.size() != 3 || sizes[1] != s.batch)
      fail(op, "(): expected steps of ", s.batch, " sequences, of shape (steps, ", s.batch,
           ", …), but got shape ", to_string(sizes));
    for (int64_t t = 0; t < sizes[0]; ++t) s.steps.push_back({t * s.batch, s.batch});
    s.total = sizes[0] * s.batch;
  } else {
    int64_t before = s.batch;
    for (const int64_t rows : heights) {
      if (rows < 1 || rows > before || (s.total == 0 && rows != before))
        fail(op, "(): expected numbers of rows that begin with the batch, ", s.batch,
             ", and never grow, but got ", to_string(heights));
      s.steps.push_back({s.total, rows});
      s.total += rows;
      before = rows;
    }
    if (sizes.size() != 2 || sizes[0] != s.total)
      fail(op, "(): expected ", s.total, " rows, as the numbers for each step say, but got shape ",
           to_string(sizes));
  }
  if (s.steps.empty()) fail(op, "(): Expected sequence length to be larger than 0 in RNN");
  if (reverse) std::reverse(s.steps.begin(), s.steps.end());
  return s;
}

void need(const Tensor& t, const Tensor& like, IntList sizes, const char* what, const char* op) {
  if (!same(t.sizes(), sizes))
    fail(op, "(): expected ", what, " of shape ", to_string(sizes), ", but got shape ", t.sizes());
  if (t.dtype() != like.dtype())
    fail(op, "(): expected one dtype, but the input is of ", name_of(like.dtype()), " and ", what, " of ",
         name_of(t.dtype()));
}
/// The first state and the parameters.
void check(const Steps& s, const Tensor& like, const Tensor& hidden, const Tensor& cell, const Tensor& weight,
           const Tensor& bias, const char* op) {
  if (!like.is_floating()) fail(op, "(): not implemented for '", name_of(like.dtype()), "'");
  const int64_t wide = kernel::gates_of(s.kind) * s.hidden;
  const int64_t state[] = {s.batch, s.hidden}, product[] = {wide, s.hidden}, each[] = {wide};
  need(hidden, like, state, "a hidden state", op);
  if (cell.defined() != (s.kind == Kind::Lstm))
    fail(op, "(): a cell state is there for an LSTM, and for nothing else");
  if (cell.defined()) need(cell, like, state, "a cell state", op);
  need(weight, like, product, "a weight", op);
  if (bias.defined() && s.kind != Kind::Gru)
    fail(op, "(): the bias of the recurrence is added to the input, but for a GRU");
  if (bias.defined()) need(bias, like, each, "a bias", op);
}

Tensor dense_of(const Tensor& t, DType c) { return t.defined() ? dense_as(t, c) : t; }
Tensor returned(const Tensor& t, DType d) { return t.defined() ? as_dtype(t, d) : t; }

/// The same elements, new and row-major, in another shape.
Tensor shaped(const Tensor& t, IntList sizes) {
  const Dims strides = contiguous_strides(sizes);
  return alias(t, sizes, strides.span(), t.offset());
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> Recurrence::forward(const Tensor& input, const Tensor& hidden,
                                                       OptionalTensor cell, const Tensor& weight,
                                                       OptionalTensor bias, Text kind, IntList sizes,
                                                       bool reverse) {
  const Steps s = steps_of(input.sizes(), sizes, reverse, kind_of_name(kind, name), hidden.sizes(), name);
  check(s, input, hidden, cell, weight, bias, name);
  const int64_t wide = kernel::gates_of(s.kind) * s.hidden;
  if (input.size(-1) != wide)
    fail(name, "(): expected ", wide, " numbers for each step, but the input has shape ", input.sizes());
  const DType dtype = input.dtype(), c = compute_dtype(dtype);
  Dims shape(input.sizes());
  auto result = [&](int64_t last) {
    shape.back() = last;
    return empty(shape.span(), c);
  };
  const Tensor output = result(s.hidden), cells = s.kind == Kind::Lstm ? result(s.hidden) : Tensor(),
               gates = kernel::kept_of(s.kind) ? result(kernel::kept_of(s.kind) * s.hidden) : Tensor();
  kernel::forward(s, dense_of(input, c), dense_of(hidden, c), dense_of(cell, c), dense_of(weight, c),
                  dense_of(bias, c), output, cells, gates);
  return {returned(output, dtype), returned(cells, dtype), returned(gates, dtype)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> RecurrenceBackward::forward(
    OptionalTensor g, OptionalTensor g_cells, const Tensor& output, OptionalTensor cells,
    OptionalTensor gates, const Tensor& hidden, OptionalTensor cell, const Tensor& weight, Text kind,
    IntList sizes, bool reverse, int64_t bits) {
  const Needs<RecurrenceBackward> needs{bits};
  const Steps s = steps_of(output.sizes(), sizes, reverse, kind_of_name(kind, name), hidden.sizes(), name);
  check(s, output, hidden, cell, weight, Tensor(), name);
  Dims shape(output.sizes());
  auto need_like_output = [&](const Tensor& t, bool wanted, int64_t last, const char* what) {
    shape.back() = last;
    if (t.defined() != wanted) fail(name, "(): ", what, wanted ? " are missing" : " are of no use here");
    if (wanted) need(t, output, shape.span(), what, name);
  };
  need_like_output(output, true, s.hidden, "states");
  need_like_output(cells, s.kind == Kind::Lstm, s.hidden, "cells");
  need_like_output(gates, kernel::kept_of(s.kind) > 0, kernel::kept_of(s.kind) * s.hidden, "gates");
  if (g.defined()) need_like_output(g, true, s.hidden, "gradients of states");
  if (g_cells.defined()) need_like_output(g_cells, s.kind == Kind::Lstm, s.hidden, "gradients of cells");
  const DType dtype = output.dtype(), c = compute_dtype(dtype);
  const kernel::Cotangents d =
      kernel::backward(s, dense_of(g, c), dense_of(g_cells, c), dense_of(hidden, c), dense_of(cell, c),
                       dense_of(weight, c), dense_of(output, c), dense_of(cells, c), dense_of(gates, c));
  Tensor of_weight, of_bias;
  if (needs.any<"weight">()) {
    of_weight = empty(weight.sizes(), c);
    const int64_t turned[] = {weight.size(0), s.total}, strides[] = {1, weight.size(0)};
    kernels::multiply(alias(d.products, turned, strides, d.products.offset()), d.states, Tensor(), of_weight,
                      {});
  }
  if (needs.any<"bias">()) {
    const int64_t rows[] = {0};
    of_bias = kernels::sum({}, d.products, OptionalInts(IntList(rows)), false, OptionalType(), name);
  }
  shape.back() = d.x.size(1);
  return {needs.any<"input">() ? returned(shaped(d.x, shape.span()), dtype) : Tensor(),
          needs.any<"hidden">() ? returned(d.h0, dtype) : Tensor(),
          needs.any<"cell">() ? returned(d.c0, dtype) : Tensor(), returned(of_weight, dtype),
          returned(of_bias, dtype)};
}

namespace recurrence {

namespace {

Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  return call<Narrow>(t, int64_t{0}, first, count);
}
Tensor joined(std::span<const Tensor> parts, int64_t dim) {
  return parts.size() == 1 ? parts[0] : call<Cat>(TensorList(parts), dim);
}
Recorded operator+(const Recorded& a, const Tensor& b) { return b.defined() ? a + Recorded(b) : a; }

/// A state of all sequences, of which a step changes the first ones.
struct State {
  Tensor all;
  Tensor first(int64_t rows) const { return rows == all.size(0) ? all : rows_of(all, 0, rows); }
  void set(const Tensor& t) {
    const int64_t rows = t.size(0), more = all.size(0) - rows;
    if (more == 0) {
      all = t;
    } else {
      const Tensor parts[] = {t, rows_of(all, rows, more)};
      all = joined(parts, 0);
    }
  }
};

/// The rule in recorded operators.
Tensors recorded_rule(const Tensor& g0, const Tensor& g_cells0, const Tensor& g_gates0, const Call& c,
                      Needs<RecurrenceBackward> needs) {
  const Kind kind = kind_of_name(c.kind, Recurrence::name);
  const Steps s =
      steps_of(c.output.sizes(), c.sizes.span(), c.reverse, kind, c.hidden.sizes(), Recurrence::name);
  auto flat = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const int64_t sizes[] = {s.total, t.size(-1)};
    return call<Reshape>(t, IntList(sizes));
  };
  const Tensor output = flat(c.output), cells = flat(c.cells), gates = flat(c.gates), g = flat(g0),
               g_cells = flat(g_cells0), g_gates = flat(g_gates0);
  const size_t count = s.steps.size();
  // The states before each step, of the rows that take part in it.
  std::vector<Tensor> hidden_before(count), cell_before(count);
  State hidden{c.hidden}, cell{c.cell};
  for (size_t t = 0; t < count; ++t) {
    const auto [first, rows] = s.steps[t];
    hidden_before[t] = hidden.first(rows);
    hidden.set(rows_of(output, first, rows));
    if (kind != Kind::Lstm) continue;
    cell_before[t] = cell.first(rows);
    cell.set(rows_of(cells, first, rows));
  }
  const Recorded one = number(1, c.output);
  State dh{zeros(c.hidden.sizes(), c.hidden.dtype())}, dc = dh;
  std::vector<Tensor> dx(count), dp(count);
  for (size_t t = count; t-- > 0;) {
    const auto [first, rows] = s.steps[t];
    auto part = [&, first = first, rows = rows](const Tensor& of, int64_t which) {
      if (!of.defined()) return of;
      const Tensor at = rows_of(of, first, rows);
      return which < 0 ? at : call<Narrow>(at, int64_t{1}, which * s.hidden, s.hidden);
    };
    auto gate = [&](int64_t which) { return Recorded(part(gates, which)); };
    auto curve = [&](const Recorded& x) { return x * (one - x); };
    const Recorded d = Recorded(dh.first(rows)) + part(g, -1), y(part(output, -1)), before(hidden_before[t]);
    Tensor direct;
    if (kind == Kind::Lstm) {
      const Recorded i = gate(0), f = gate(1), u = gate(2), o = gate(3),
                     tc = apply<Tanh>(Recorded(part(cells, -1)));
      const Recorded e = Recorded(dc.first(rows)) + part(g_cells, -1) + (d * o * (one - tc * tc)).tensor;
      const Tensor parts[] = {(((e * u) + part(g_gates, 0)) * curve(i)).tensor,
                              (((e * Recorded(cell_before[t])) + part(g_gates, 1)) * curve(f)).tensor,
                              (((e * i) + part(g_gates, 2)) * (one - u * u)).tensor,
                              (((d * tc) + part(g_gates, 3)) * curve(o)).tensor};
      dx[t] = dp[t] = joined(parts, 1);
      dc.set((e * f).tensor);
    } else if (kind == Kind::Gru) {
      const Recorded r = gate(0), z = gate(1), u = gate(2), p = gate(3);
      const Recorded du = ((d * (one - z)) + part(g_gates, 2)) * (one - u * u);
      const Tensor dr = (((du * p) + part(g_gates, 0)) * curve(r)).tensor,
                   dz = (((d * (before - u)) + part(g_gates, 1)) * curve(z)).tensor;
      const Tensor to_x[] = {dr, dz, du.tensor}, to_p[] = {dr, dz, ((du * r) + part(g_gates, 3)).tensor};
      dx[t] = joined(to_x, 1);
      dp[t] = joined(to_p, 1);
      direct = (d * z).tensor;
    } else {
      dx[t] = dp[t] =
          (kind == Kind::Tanh ? d * (one - y * y) : select(y > number(0, c.output), d, number(0, c.output)))
              .tensor;
    }
    dh.set((Recorded(call<Matmul>(dp[t], c.weight)) + direct).tensor);
  }
  if (c.reverse)
    for (auto* all : {&dx, &dp, &hidden_before}) std::reverse(all->begin(), all->end());
  const Tensor products = joined(dp, 0);
  Tensor of_input, of_weight, of_bias;
  if (needs.any<"input">()) {
    Dims sizes(c.output.sizes());
    sizes.back() = products.size(-1);
    of_input = call<Reshape>(joined(dx, 0), sizes.span());
  }
  if (needs.any<"weight">())
    of_weight = call<Matmul>(call<Transpose>(products, int64_t{0}, int64_t{1}), joined(hidden_before, 0));
  if (needs.any<"bias">()) {
    const int64_t rows[] = {0};
    of_bias = call<Sum>(products, OptionalInts(IntList(rows)), false, OptionalType());
  }
  return {of_input, needs.any<"hidden">() ? dh.all : Tensor(),
          needs.any<"cell">() && kind == Kind::Lstm ? dc.all : Tensor(), of_weight, of_bias};
}

}  // namespace

Tensors rule(const Tensor& g, const Tensor& g_cells, const Tensor& g_gates, const Call& c,
             Needs<RecurrenceBackward> needs) {
  if (recording() || g_gates.defined()) return recorded_rule(g, g_cells, g_gates, c, needs);
  return call_all<RecurrenceBackward>(g, g_cells, c.output, c.cells, c.gates, c.hidden, c.cell, c.weight,
                                      Text(c.kind), c.sizes.span(), c.reverse, needs.bits);
}

}  // namespace recurrence

// --- On batches -----------------------------------------------------------------------------------

// The batch joins the sequences, which are a dimension of (steps, sequences, …) and of (sequences, …).

namespace {

Tensor as_sequences(const BatchedTensor& t) { return t ? t.joined(t.rank() == 3) : Tensor(); }
void give_sequences(BatchedCall& c, Tensors results) {
  for (Tensor& t : results)
    if (t.defined()) t = batching::parted(c, t, t.dim() == 3);
  c.give(std::move(results));
}

}  // namespace

void Recurrence::batch(BatchedCall& c, Batched<"input"> input, Batched<"hidden"> hidden, Batched<"cell"> cell,
                       Batched<"weight"> weight, Batched<"bias"> bias, Argument<Text, "kind"> kind,
                       Argument<IntList, "sizes"> sizes, Argument<bool, "reverse"> reverse) {
  if (weight.batched() || bias.batched() || !sizes.value.empty()) return batching::loop(c);
  give_sequences(c, call_all<Recurrence>(as_sequences(input), as_sequences(hidden), as_sequences(cell),
                                         weight.tensor, bias.tensor, kind, sizes, reverse));
}

void RecurrenceBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"g_cells"> g_cells,
                               Batched<"output"> output, Batched<"cells"> cells, Batched<"gates"> gates,
                               Batched<"hidden"> hidden, Batched<"cell"> cell, Batched<"weight"> weight,
                               Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
                               Argument<bool, "reverse"> reverse, Argument<int64_t, "needs"> bits) {
  const Needs<RecurrenceBackward> needs{bits};
  if (!weight.batched() && sizes.value.empty() && !needs.any<"weight", "bias">()) {
    return give_sequences(
        c, call_all<RecurrenceBackward>(as_sequences(g), as_sequences(g_cells), as_sequences(output),
                                        as_sequences(cells), as_sequences(gates), as_sequences(hidden),
                                        as_sequences(cell), weight.tensor, kind, sizes, reverse, bits));
  }
  // A gradient of the weight for each sample: in operators, which are batched in their turn.
  c.give_finished(
      recurrence::recorded_rule(g.bare(), g_cells.bare(), Tensor(),
                                {hidden.bare(), cell.bare(), weight.bare(), output.bare(), cells.bare(),
                                 gates.bare(), std::string(kind.value), Dims(sizes.value), reverse},
                                needs));
}

}  // namespace adjoint

ADJOINT_FAMILY(Recurrences)
