// Recurrent layers: sequences are independent of each other, so a thread takes some of them through all
// steps.
#include "kernels/recurrence.h"

#include <numeric>
#include <vector>

#include "for_size.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/recurrence.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "runtime/interrupt.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::recurrence {

namespace {

/// A matrix of k rows and n columns, whose columns or rows lie in one piece, in panels.
template <class T>
Tensor packed(const T* matrix, int64_t k, int64_t n, int64_t down, int64_t across, int64_t width) {
  const int64_t sizes[] = {(n + width - 1) / width * width * k};
  Tensor panels = empty(sizes, dtype_of<T>);
  T* to = panels.data<T>();
  std::vector<int64_t> rows(static_cast<size_t>(down == 1 ? k : 0));
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t j = 0; j < n; j += width, to += k * width) {
    const int64_t count = std::min(width, n - j);
    if (down == 1) {
      best_variant<ConvolutionTable<T>>().pack(matrix + j * across, count, across, k, rows.data(), width, to);
      continue;
    }
    for (int64_t i = 0; i < k; ++i)
      std::fill_n(std::copy_n(matrix + i * down + j, count, to + i * width), width - count, T(0));
  }
  return panels;
}

template <class T>
T* values(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

/// f(begin, end) over the sequences, in parallel.
template <class F>
void share(const Steps& s, const F& f) {
  const int64_t work = s.total * s.hidden * s.hidden * gates_of(s.kind) / std::max<int64_t>(s.batch, 1);
  runtime::parallel_for(0, s.batch, std::max<int64_t>(4, (int64_t{1} << 20) / std::max<int64_t>(work, 1)), f);
}

/// f(row among the sequences, rows, h before, c before) for the rows in [begin, end) that take part in step
/// t: at most two runs, since some may begin there.
template <class T, class F>
void each_run(const Steps& s, size_t t, int64_t begin, int64_t end, const T* y, const T* c, const T* h0,
              const T* c0, const F& f) {
  // Now and then, as many steps may take long.
  if (t % 64 == 0 && !runtime::in_parallel_region()) runtime::check_interrupt();
  end = std::min(end, s.steps[t].rows);
  const int64_t begun = t ? std::min(end, s.steps[t - 1].rows) : 0;
  const auto at = [](const T* p, int64_t i) { return p ? p + i : nullptr; };
  if (begun > begin) {
    const int64_t from = (s.steps[t - 1].first + begin) * s.hidden;
    f(begin, begun - begin, y + from, at(c, from));
  }
  const int64_t first = std::max(begin, begun);
  if (end > first) f(first, end - first, h0 + first * s.hidden, at(c0, first * s.hidden));
}

}  // namespace

static void run_steps(const Tensor& y, const Tensor& c, const Tensor& kept, const Steps& s, const Tensor& x,
                      const Tensor& h0, const Tensor& c0, const Tensor& weight, const Tensor& bias) {
  const int64_t n = s.hidden, wide = gates_of(s.kind) * n, keep = kept_of(s.kind) * n;
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<RecurrenceTable<T>>();
    const Tensor panels = packed(weight.data<T>(), n, wide, 1, n, table.panel);
    const Kind kind = s.kind;
    const T *px = x.data<T>(), *w = panels.data<T>(), *b = values<T>(bias);
    T *py = y.data<T>(), *pc = values<T>(c), *pk = values<T>(kept);
    share(s, [&](int64_t begin, int64_t end) {
      const int64_t scratch[] = {kind == Kind::Gru ? (end - begin) * wide : 0};
      const Tensor products = empty(scratch, dtype_of<T>);
      T* p = products.data<T>();
      for (size_t t = 0; t < s.steps.size(); ++t)
        each_run<T>(s, t, begin, end, py, pc, h0.data<T>(), values<T>(c0),
                    [&](int64_t row, int64_t rows, const T* h_before, const T* c_before) {
                      const int64_t at = s.steps[t].first + row;
                      T* h = py + at * n;
                      if (kind == Kind::Lstm) {
                        table.product(rows, wide, n, h_before, n, w, px + at * wide, wide, pk + at * wide,
                                      wide);
                        for (int64_t r = 0; r < rows; ++r)
                          table.lstm(n, pk + (at + r) * keep, c_before + r * n, pc + (at + r) * n, h + r * n);
                      } else if (kind == Kind::Gru) {
                        table.product(rows, wide, n, h_before, n, w, b, 0, p, wide);
                        for (int64_t r = 0; r < rows; ++r)
                          table.gru(n, px + (at + r) * wide, p + r * wide, h_before + r * n,
                                    pk + (at + r) * keep, h + r * n);
                      } else {
                        table.product(rows, n, n, h_before, n, w, px + at * n, n, h, n);
                        table.elman(rows * n, kind == Kind::Relu, h);
                      }
                    });
    });
  });
}

void forward(const Steps& s, const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight,
             const Tensor& bias, const Tensor& y, const Tensor& c, const Tensor& kept) {
  on<&run_steps>(Out(y), Out(c), Out(kept), s, x, h0, c0, weight, bias);
}

static void run_steps_back(const Tensor& of_x, const Tensor& of_products, const Tensor& of_states,
                           const Tensor& of_h0, const Tensor& of_c0, const Steps& s, const Tensor& g,
                           const Tensor& g_c, const Tensor& h0, const Tensor& c0, const Tensor& weight,
                           const Tensor& y, const Tensor& c, const Tensor& kept) {
  const int64_t n = s.hidden, wide = gates_of(s.kind) * n, keep = kept_of(s.kind) * n;
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<RecurrenceTable<T>>();
    const Tensor panels = packed(weight.data<T>(), wide, n, n, 1, table.panel);
    const Kind kind = s.kind;
    const T *w = panels.data<T>(), *py = y.data<T>(), *pc = values<T>(c), *pk = values<T>(kept),
            *pg = values<T>(g), *pgc = values<T>(g_c);
    T *dx = of_x.data<T>(), *dp = of_products.defined() ? of_products.data<T>() : dx,
      *states = of_states.data<T>();
    share(s, [&](int64_t begin, int64_t end) {
      for (size_t t = s.steps.size(); t-- > 0;)
        each_run<T>(s, t, begin, end, py, pc, h0.data<T>(), values<T>(c0),
                    [&](int64_t row, int64_t rows, const T* h_before, const T* c_before) {
                      const int64_t at = s.steps[t].first + row;
                      T* dh = of_h0.data<T>() + row * n;
                      std::copy_n(h_before, rows * n, states + at * n);
                      for (int64_t r = 0; r < rows; ++r) {
                        const int64_t i = at + r;
                        const T *gi = pg ? pg + i * n : nullptr, *gci = pgc ? pgc + i * n : nullptr;
                        if (kind == Kind::Lstm)
                          table.lstm_back(n, pk + i * keep, c_before + r * n, pc + i * n, gi, gci, dh + r * n,
                                          of_c0.data<T>() + (row + r) * n, dx + i * wide);
                        else if (kind == Kind::Gru)
                          table.gru_back(n, pk + i * keep, h_before + r * n, gi, dh + r * n, dx + i * wide,
                                         dp + i * wide);
                        else
                          table.elman_back(n, kind == Kind::Relu, py + i * n, gi, dh + r * n, dx + i * n);
                      }
                      table.product(rows, n, wide, dp + at * wide, wide, w, kind == Kind::Gru ? dh : nullptr,
                                    n, dh, n);
                    });
    });
  });
}

Cotangents backward(const Steps& s, const Tensor& g, const Tensor& g_c, const Tensor& h0, const Tensor& c0,
                    const Tensor& weight, const Tensor& y, const Tensor& c, const Tensor& kept) {
  const int64_t n = s.hidden, wide = gates_of(s.kind) * n;
  const int64_t all_gates[] = {s.total, wide}, all_states[] = {s.total, n}, one_state[] = {s.batch, n};
  const DType dtype = y.dtype();
  Cotangents out{empty(all_gates, dtype),
                 zeros(one_state, dtype),
                 s.kind == Kind::Lstm ? zeros(one_state, dtype) : Tensor(),
                 {},
                 empty(all_states, dtype)};
  out.products = s.kind == Kind::Gru ? empty(all_gates, dtype) : out.x;
  on<&run_steps_back>(Out(out.x), Out(s.kind == Kind::Gru ? out.products : Tensor()), Out(out.states),
                      Out(out.h0), Out(out.c0), s, g, g_c, h0, c0, weight, y, c, kept);
  return out;
}

}  // namespace adjoint::kernels::recurrence
