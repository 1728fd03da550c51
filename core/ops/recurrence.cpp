// What the rows of recurrence make, and what they are composed of: start reading at `step_of`.
#include "ops/recurrence.h"

#include "autograd/arguments.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/product.h"
#include "kernels/recurrence.h"
#include "kernels/reduction.h"
#include "kernels/slices.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/exponential.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/product.h"
#include "ops/reduction.h"
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
  need_shape(t, sizes, what, op);
  if (t.dtype() != like.dtype())
    fail(op, "(): expected one dtype, but the input is of ", name_of(like.dtype()), " and ", what, " of ",
         name_of(t.dtype()));
}
/// The first state and the parameters of the recurrence.
void check_parameters(const Steps& s, const Tensor& x, const Tensor& hidden, const Tensor& cell,
                      const Tensor& weight, const Tensor& bias, const char* op) {
  need_floating(x.dtype(), op);
  const int64_t wide = kernel::gates_of(s.kind) * s.hidden;
  const int64_t state[] = {s.batch, s.hidden}, product[] = {wide, s.hidden}, each[] = {wide};
  need(hidden, x, state, "a hidden state", op);
  if (cell.defined() != (s.kind == Kind::Lstm))
    fail(op, "(): a cell state is there for an LSTM, and for nothing else");
  if (cell.defined()) need(cell, x, state, "a cell state", op);
  need(weight, x, product, "a weight", op);
  if (bias.defined() && s.kind != Kind::Gru)
    fail(op, "(): the bias of the recurrence is added to that of the inputs, but for a GRU");
  if (bias.defined()) need(bias, x, each, "a bias", op);
}
/// The steps of a call in which inputs and their weights give x.
Steps checked(const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weight,
              const Tensor& bias, Text kind, IntList sizes, bool reverse, const char* op) {
  const Steps s = steps_of(x.sizes(), sizes, reverse, kind_of_name(kind, op), hidden.sizes(), op);
  check_parameters(s, x, hidden, cell, weight, bias, op);
  if (const int64_t wide = kernel::gates_of(s.kind) * s.hidden; x.size(-1) != wide)
    fail(op, "(): expected ", wide, " numbers for each step, but inputs and their weights give shape ",
         x.sizes());
  return s;
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
                                                       OptionalTensor cell, const Tensor& w_ih,
                                                       const Tensor& w_hh, OptionalTensor b_ih,
                                                       OptionalTensor b_hh, Text kind, IntList sizes,
                                                       bool reverse) {
  const Tensor x = products::linear({}, input, w_ih, b_ih);
  const Steps s = checked(x, hidden, cell, w_hh, b_hh, kind, sizes, reverse, name);
  const DType dtype = x.dtype(), c = compute_dtype(dtype);
  Dims shape(x.sizes());
  auto result = [&](int64_t last) {
    shape.back() = last;
    return empty(shape.span(), c);
  };
  const Tensor output = result(s.hidden), cells = s.kind == Kind::Lstm ? result(s.hidden) : Tensor(),
               gates = kernel::kept_of(s.kind) ? result(kernel::kept_of(s.kind) * s.hidden) : Tensor();
  kernel::forward(s, dense_of(x, c), dense_of(hidden, c), dense_of(cell, c), dense_of(w_hh, c),
                  dense_of(b_hh, c), output, cells, gates);
  return {returned(output, dtype), returned(cells, dtype), returned(gates, dtype)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> RecurrenceBackward::forward(
    OptionalTensor g, OptionalTensor g_cells, const Tensor& output, OptionalTensor cells,
    OptionalTensor gates, const Tensor& hidden, OptionalTensor cell, const Tensor& w_hh, Text kind,
    IntList sizes, bool reverse, int64_t bits) {
  const Needs<RecurrenceBackward> needs{bits};
  const Steps s = steps_of(output.sizes(), sizes, reverse, kind_of_name(kind, name), hidden.sizes(), name);
  check_parameters(s, output, hidden, cell, w_hh, Tensor(), name);
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
                       dense_of(w_hh, c), dense_of(output, c), dense_of(cells, c), dense_of(gates, c));
  Tensor of_weight, of_bias;
  if (needs.any<"w_hh">()) {
    of_weight = empty(w_hh.sizes(), c);
    const int64_t turned[] = {w_hh.size(0), s.total}, strides[] = {1, w_hh.size(0)};
    kernels::multiply(alias(d.products, turned, strides, d.products.offset()), d.states, Tensor(), of_weight,
                      {});
  }
  if (needs.any<"b_hh">()) {
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

/// Sums over all but the last dimension.
Tensor summed(const Tensor& t) {
  const int64_t rows[] = {0, 1};
  return call<Sum>(t, OptionalInts(IntList(rows, static_cast<size_t>(t.dim() - 1))), false, OptionalType());
}
Tensor part(const Tensor& t, int64_t dim, int64_t first, int64_t count) {
  return call<Narrow>(t, dim, first, count);
}
Tensor joined(const Tensor& a, const Tensor& b, int64_t dim) {
  const Tensor both[] = {a, b};
  return call<Cat>(TensorList(both), dim);
}

/// The state of the first `rows` sequences: others have ended, or begin, with their first state.
Tensor state_of(const Tensor& t, const Tensor& first, int64_t rows) {
  const int64_t before = t.size(0);
  if (rows <= before) return rows == before ? t : part(t, 0, 0, rows);
  return joined(t, part(first, 0, before, rows - before), 0);
}

/// What a step gives, and what a gated one keeps.
struct Step {
  Tensor h, c;
  Tensors gates = {};
};
/// One step, or all of them side by side: elementwise in `x`, the products of the inputs and of the states
/// together (for a GRU, of the inputs alone, and `p` of the states), and in the state and cell before.
Step step_of(Kind kind, const Tensor& x, const Tensor& p, const Tensor& h, const Tensor& c) {
  const auto parts = [](const Tensor& t, int64_t count) { return call_all<Chunk>(t, count, int64_t{-1}); };
  if (kind == Kind::Gru) {
    const Tensors of_x = parts(x, 3), of_h = parts(p, 3);
    const auto gate = [&](size_t i) { return apply<Sigmoid>(Recorded(of_x[i]) + Recorded(of_h[i])); };
    const Recorded r = gate(0), z = gate(1),
                   n = apply<Tanh>(Recorded(call<Addcmul>(of_x[2], r.tensor, of_h[2], 1.0)));
    return {call<Lerp>(n.tensor, h, z.tensor), {}, {r.tensor, z.tensor, n.tensor, of_h[2]}};
  }
  if (kind != Kind::Lstm) return {kind == Kind::Tanh ? call<Tanh>(x) : call<Relu>(x), {}};
  const Tensors of = parts(x, 4);
  const Recorded i = apply<Sigmoid>(Recorded(of[0])), f = apply<Sigmoid>(Recorded(of[1])),
                 u = apply<Tanh>(Recorded(of[2])), o = apply<Sigmoid>(Recorded(of[3])),
                 next(call<Addcmul>((f * Recorded(c)).tensor, i.tensor, u.tensor, 1.0));
  return {(o * apply<Tanh>(next)).tensor, next.tensor, {i.tensor, f.tensor, u.tensor, o.tensor}};
}

Tensor as_computed(const Tensor& t) { return t.defined() ? as_type(t, compute_dtype(t.dtype())) : t; }
Tensor returned_as(const Tensor& t, DType d) { return t.defined() ? as_type(t, d) : t; }

/// What the row is composed of, from the products of the inputs on: states, cells and gates.
std::tuple<Tensor, Tensor, Tensor> through_steps(const Tensor& all, const Tensor& hidden, const Tensor& cell,
                                                 const Tensor& w_hh, const Tensor& b_hh, Text kind,
                                                 IntList sizes, bool reverse) {
  const Steps s = checked(all, hidden, cell, w_hh, b_hh, kind, sizes, reverse, Recurrence::name);
  const Tensor h0 = as_computed(hidden), c0 = as_computed(cell), w = as_computed(w_hh), b = as_computed(b_hh),
               turned = call<Transpose>(w, int64_t{0}, int64_t{1});
  Tensors inputs = sizes.empty() ? call_all<Unbind>(as_computed(all), int64_t{0})
                                 : call_all<SplitSizes>(as_computed(all), sizes, int64_t{0});
  if (reverse) std::reverse(inputs.begin(), inputs.end());
  Step now{h0, c0};
  Tensors outputs, cells, gates[4];
  for (const Tensor& x : inputs) {
    const Tensor h = state_of(now.h, h0, x.size(0));
    if (s.kind == Kind::Gru)
      now = step_of(s.kind, x, call<Linear>(h, w, b), h, {});
    else
      now = step_of(s.kind, call<Addmm>(x, h, turned, Scalar(1), Scalar(1)), {}, {},
                    c0.defined() ? state_of(now.c, c0, x.size(0)) : Tensor());
    outputs.push_back(now.h);
    if (c0.defined()) cells.push_back(now.c);
    for (size_t i = 0; i < now.gates.size(); ++i) gates[i].push_back(now.gates[i]);
  }
  const auto together = [&](Tensors& steps) {
    if (reverse) std::reverse(steps.begin(), steps.end());
    return steps.empty()   ? Tensor()
           : sizes.empty() ? call<Stack>(TensorList(steps), int64_t{0})
                           : call<Cat>(TensorList(steps), int64_t{0});
  };
  Tensor kept;
  if (!gates[0].empty()) {
    const Tensor side_by_side[] = {together(gates[0]), together(gates[1]), together(gates[2]),
                                   together(gates[3])};
    kept = call<Cat>(TensorList(side_by_side), int64_t{-1});
  }
  const DType given = all.dtype();
  return {returned_as(together(outputs), given), returned_as(together(cells), given),
          returned_as(kept, given)};
}

/// The states before all steps.
Tensor before_steps(const Tensor& states, const Tensor& first, bool reverse) {
  const Tensor one = call<Unsqueeze>(first, int64_t{0}),
               others = part(states, 0, reverse, states.size(0) - 1);
  return reverse ? joined(others, one, 0) : joined(one, others, 0);
}

/// Gradients: of the products of the inputs, of those of the states, of the first state and of the first
/// cell.
struct OfProducts {
  Tensor x, p, h0, c0;
};

/// Recorded, of steps that are not packed. As a step is elementwise, its derivatives are diagonals:
/// ones, pulled back through all steps at once, give them. What remains along time is linear.
OfProducts by_diagonals(const Call& c, const Tensor& before) {
  const Kind kind = kind_of_name(c.kind, Recurrence::name);
  const bool gru = kind == Kind::Gru, lstm = kind == Kind::Lstm;
  const int64_t blocks = kernel::gates_of(kind), steps = c.output.size(0), rows = c.hidden.size(0),
                width = c.hidden.size(1), flat[] = {rows, blocks * width},
                apart[] = {steps, rows, blocks, width}, all_flat[] = {steps, rows, blocks * width};
  const Tensor w = as_computed(c.w_hh), h = as_computed(before),
               x = as_computed(call<Linear>(c.input, c.w_ih, c.b_ih)),
               p = call<Linear>(h, w, as_computed(c.b_hh));
  const Tensor begins[] = {gru ? x : (Recorded(x) + Recorded(p)).tensor, gru ? p : Tensor(),
                           gru ? h : Tensor(),
                           lstm ? as_computed(before_steps(c.cells, c.cell, c.reverse)) : Tensor()};
  const auto blockwise = [&](const Tensor& t) { return blocks > 1 ? call<Reshape>(t, IntList(apart)) : t; };
  const auto each = [](const Tensor& t) { return t.defined() ? call_all<Unbind>(t, int64_t{0}) : Tensors(); };
  const auto diagonals = [&](size_t result) {
    Tensor seeds[2];
    seeds[result] = full(c.output.sizes(), Scalar(1), h.dtype());
    Tensors d = pull_back(TensorList(begins), 0b1111, TensorList(seeds), [&](const Tensors& own) {
      Step s = step_of(kind, own[0], own[1], own[2], own[3]);
      return Tensors{std::move(s.h), std::move(s.c)};
    });
    for (size_t i : {0, 1})
      if (d[i].defined()) d[i] = blockwise(d[i]);
    return d;
  };
  const Tensors of_h = diagonals(0), of_c = lstm ? diagonals(1) : Tensors(4);
  // The derivatives of each step, of its state and its cell.
  const Tensors p_by_h = each(of_h[gru]), p_by_c = each(of_c[0]), h_by_h = each(of_h[2]),
                c_by_h = each(of_h[3]), c_by_c = each(of_c[3]), g = each(as_computed(c.g)),
                g_cells = each(as_computed(c.g_cells));
  // Sums may begin with nothing.
  const auto plus = [](const Tensor& sum, const Tensor& a, const Tensor& b) {
    return sum.defined() ? call<Addcmul>(sum, a, b, 1.0) : call<Mul>(a, b);
  };
  const auto wide = [&](const Tensor& t) { return blocks > 1 ? call<Unsqueeze>(t, int64_t{1}) : t; };
  const auto count = static_cast<size_t>(steps);
  Tensors products(count), states(count);
  const auto given = [&](const Tensors& all, size_t i) {  // to step i from the last
    return i == count || all.empty() ? Tensor() : all[c.reverse ? i : count - 1 - i];
  };
  Tensor dh = g.empty() ? zeros(c.hidden.sizes(), h.dtype()) : given(g, 0), dc = given(g_cells, 0);
  for (size_t i = 0; i < count; ++i) {
    const size_t t = c.reverse ? i : count - 1 - i;
    Tensor product;
    if (dc.defined()) product = call<Mul>(p_by_c[t], wide(dc));
    product = plus(product, p_by_h[t], wide(dh));
    if (blocks > 1) product = call<Reshape>(product, IntList(flat));
    if (lstm) {
      Tensor sum = given(g_cells, i + 1);
      if (dc.defined()) sum = plus(sum, c_by_c[t], dc);
      dc = plus(sum, c_by_h[t], dh);
    }
    states[t] = dh;
    products[t] = product;
    Tensor sum = given(g, i + 1);
    if (gru) sum = plus(sum, h_by_h[t], dh);
    dh = sum.defined() ? call<Addmm>(sum, product, w, Scalar(1), Scalar(1)) : call<Matmul>(product, w);
  }
  OfProducts made{{}, call<Stack>(TensorList(products), int64_t{0}), dh, dc};
  made.x =
      gru ? call<Reshape>(
                call<Mul>(of_h[0], call<Unsqueeze>(call<Stack>(TensorList(states), int64_t{0}), int64_t{2})),
                IntList(all_flat))
          : made.p;
  for (Tensor* t : {&made.x, &made.p, &made.h0, &made.c0}) *t = returned_as(*t, c.input.dtype());
  return made;
}

}  // namespace

Tensors rule(const Call& c, Needs<RecurrenceBackward> needs, bool w_ih, bool b_ih) {
  const auto any_carries = [](auto&... t) {
    return ((t.defined() && t->flags & TensorImpl::kCarries) || ...);
  };
  // The kernel cannot be differentiated, has one weight, and sums over all samples. The states before packed
  // steps lie scattered.
  const bool samples = any_carries(c.g, c.g_cells, c.output, c.cells, c.gates, c.hidden, c.cell),
             packed = !c.sizes.empty(), side_by_side = recording() || any_carries(c.w_hh),
             by_steps = c.g_gates.defined() || (packed && (side_by_side || samples)),
             apart = !by_steps && (side_by_side || samples);
  constexpr auto bit = [](int number) { return int64_t{1} << number; };
  constexpr int64_t input = bit(number_of_result<RecurrenceBackward, "input">),
                    parameters = bit(number_of_result<RecurrenceBackward, "w_hh">) |
                                 bit(number_of_result<RecurrenceBackward, "b_hh">);
  const int64_t wanted = (needs.bits & ~(apart ? parameters : 0)) |
                         ((apart && needs.bits & parameters) || w_ih || b_ih ? input : 0);
  const Tensor before = apart ? before_steps(c.output, c.hidden, c.reverse) : Tensor();
  Tensors made;
  Tensor products;
  if (by_steps) {
    const Tensor begins[] = {call<Linear>(c.input, c.w_ih, c.b_ih), c.hidden, c.cell, c.w_hh, c.b_hh},
                 cotangents[] = {c.g, c.g_cells, c.g_gates};
    made = pull_back(TensorList(begins), static_cast<uint32_t>(wanted), TensorList(cotangents),
                     [&](const Tensors& own) {
                       auto [output, cells, gates] =
                           through_steps(own[0], own[1], own[2], own[3], own[4], c.kind, c.sizes, c.reverse);
                       return Tensors{output, cells, gates};
                     });
  } else if (side_by_side) {
    OfProducts of = by_diagonals(c, before);
    products = of.p;
    made = {of.x, of.h0, of.c0, Tensor(), Tensor()};
  } else {
    made = call_all<RecurrenceBackward>(c.g, c.g_cells, c.output, c.cells, c.gates, c.hidden, c.cell, c.w_hh,
                                        c.kind, c.sizes, c.reverse, wanted);
  }
  const Tensor x = made[0];
  if (apart && needs.bits & parameters) {
    const int64_t n = c.hidden.size(1);
    if (!products.defined())
      products = c.kind != "gru" ? x
                                 : joined(part(x, 2, 0, 2 * n),
                                          call<Mul>(part(x, 2, 2 * n, n), part(c.gates, 2, 0, n)), 2);
    if (needs.any<"w_hh">()) made[3] = linear_weight_gradient(products, before, c.w_hh.sizes());
    if (needs.any<"b_hh">()) made[4] = summed(products);
  }
  return {needs.any<"input">() ? linear_input_gradient(x, c.w_ih, c.input.sizes()) : Tensor(),
          made[1],
          made[2],
          w_ih ? linear_weight_gradient(x, c.input, c.w_ih.sizes()) : Tensor(),
          made[3],
          b_ih ? summed(x) : Tensor(),
          made[4]};
}

}  // namespace recurrence

std::tuple<Tensor, Tensor, Tensor> Recurrence::composed(const Tensor& input, const Tensor& hidden,
                                                        OptionalTensor cell, const Tensor& w_ih,
                                                        const Tensor& w_hh, OptionalTensor b_ih,
                                                        OptionalTensor b_hh, Text kind, IntList sizes,
                                                        bool reverse) {
  return recurrence::through_steps(call<Linear>(input, w_ih, b_ih), hidden, cell, w_hh, b_hh, kind, sizes,
                                   reverse);
}

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
                       Batched<"w_ih"> w_ih, Batched<"w_hh"> w_hh, Batched<"b_ih"> b_ih, Batched<"b_hh"> b_hh,
                       Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
                       Argument<bool, "reverse"> reverse) {
  if (w_ih.batched() || w_hh.batched() || b_ih.batched() || b_hh.batched() || !sizes.value.empty())
    return batching::composed(c);
  give_sequences(
      c, call_all<Recurrence>(as_sequences(input), as_sequences(hidden), as_sequences(cell), w_ih.tensor,
                              w_hh.tensor, b_ih.tensor, b_hh.tensor, kind, sizes, reverse));
}

void RecurrenceBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"g_cells"> g_cells,
                               Batched<"output"> output, Batched<"cells"> cells, Batched<"gates"> gates,
                               Batched<"hidden"> hidden, Batched<"cell"> cell, Batched<"w_hh"> w_hh,
                               Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
                               Argument<bool, "reverse"> reverse, Argument<int64_t, "needs"> bits) {
  if (w_hh.batched() || !sizes.value.empty() || Needs<RecurrenceBackward>{bits}.any<"w_hh", "b_hh">())
    return batching::loop(c);
  give_sequences(c,
                 call_all<RecurrenceBackward>(as_sequences(g), as_sequences(g_cells), as_sequences(output),
                                              as_sequences(cells), as_sequences(gates), as_sequences(hidden),
                                              as_sequences(cell), w_hh.tensor, kind, sizes, reverse, bits));
}

}  // namespace adjoint

ADJOINT_FAMILY(Recurrences)
