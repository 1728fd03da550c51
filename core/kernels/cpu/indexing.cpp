// Moving and adding elements by index. Start reading at `each_run`.
#include "kernels/indexing.h"

#include <algorithm>
#include <numeric>

#include "kernels/copy.h"
#include "kernels/cpu/copying.h"
#include "kernels/cpu/indexing.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint {

namespace {

/// Elements that are worth a thread.
constexpr int64_t kGrain = 32768;

/// All of a plan's offsets, kept where they are used more than once.
class Offsets {
 public:
  explicit Offsets(const IndexPlan& plan, bool keep) : plan_(plan) {
    if (!keep) return;
    kept_ = runtime::Scratch<int64_t>(plan.positions);
    plan.offsets(0, plan.positions, kept_.get());
  }
  /// f(first, n, offsets) over blocks of positions.
  template <class F>
  void each_block(int64_t begin, int64_t end, F&& f) const {
    if (kept_) return f(begin, end - begin, kept_.get() + begin);
    constexpr int64_t kBlock = 512;
    int64_t buffer[kBlock];
    for (int64_t b = begin; b < end; b += kBlock) {
      const int64_t n = std::min(kBlock, end - b);
      plan_.offsets(b, n, buffer);
      f(b, n, static_cast<const int64_t*>(buffer));
    }
  }

 private:
  const IndexPlan& plan_;
  runtime::Scratch<int64_t> kept_;
};

/// f(at, element, n, stride) for the runs of one row's elements [from, to): n elements from byte `at`,
/// `stride` bytes apart, which are those from number `element` on.
template <class F>
void each_run(const IndexPlan& plan, int64_t from, int64_t to, F&& f) {
  const int last = static_cast<int>(plan.after.size()) - 1;
  if (last < 0) return f(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{0});
  const int64_t length = plan.after[last], stride = plan.after_strides[last];
  if (last == 0) return f(from * stride, from, to - from, stride);
  for (int64_t e = from; e < to;) {
    const int64_t within = e % length, n = std::min(length - within, to - e);
    int64_t at = within * stride, rest = e / length;
    for (int i = last - 1; rest; --i) {
      at += rest % plan.after[i] * plan.after_strides[i];
      rest /= plan.after[i];
    }
    f(at, e, n, stride);
    e += n;
  }
}

/// Values as write_at and add_at take them: of the plan's shape and row-major, or one for all.
struct Values {
  Values(const Tensor& self, const IndexPlan& plan, const Tensor& given) {
    const Tensor wide = fitted(given, plan.shape.span(), "");
    single = given.numel() == 1;
    const Tensor& from = single ? given : wide;
    const bool as_it_is =
        from.dtype() == self.dtype() && from.is_contiguous() && !may_share_memory(from, self);
    tensor = as_it_is ? from : copy_of(from, self.dtype());
    step = single ? 0 : 1;
  }
  template <class F>
  void each_tensor(const F& f) {
    f(tensor);
  }
  Tensor tensor;
  bool single;
  int64_t step;  // in elements
};

/// act(at, value, n, stride) for each run, at most one thread at a time for each place. Runs that meet come
/// in the order of their positions.
template <class T, class F>
void each_place(const Tensor& self, const IndexPlan& plan, const Values& values, const F& act) {
  const int64_t rows = plan.rows(), length = plan.row_length(), positions = plan.positions;
  if (rows == 0 || length == 0 || positions == 0) return;
  const T* v = values.tensor.data<T>();
  const int64_t step = values.step;
  const Offsets offsets(plan, rows > 1);
  auto part = [&](int64_t row, int64_t from, int64_t to) {
    char* base = self.bytes() + plan.row_offset(row);
    offsets.each_block(0, positions, [&](int64_t first, int64_t n, const int64_t* offset) {
      const T* value = v + (row * positions + first) * length * step;
      if (length == 1) {
#pragma GCC unroll 8
        for (int64_t p = 0; p < n; ++p)
          act(reinterpret_cast<T*>(base + offset[p]), value + p * step, 1, int64_t{0}, int64_t{0});
        return;
      }
      for (int64_t p = 0; p < n; ++p)
        each_run(plan, from, to, [&](int64_t at, int64_t element, int64_t run, int64_t stride) {
          act(reinterpret_cast<T*>(base + offset[p] + at), value + (p * length + element) * step, run, stride,
              step);
        });
    });
  };
  if (rows > 1) {
    runtime::parallel_for(0, rows, std::max<int64_t>(1, kGrain / (positions * length)),
                          [&](int64_t b, int64_t e) {
                            for (; b < e; ++b) part(b, 0, length);
                          });
    return;
  }
  // Columns of whole cache lines.
  const int64_t line = std::max<int64_t>(1, 64 / self.itemsize());
  runtime::parallel_for(0, (length - 1) / line + 1, std::max<int64_t>(4, kGrain / (positions * line)),
                        [&](int64_t b, int64_t e) { part(0, b * line, std::min(length, e * line)); });
}

}  // namespace

static void read_places(const Tensor& out, const Tensor& self, const IndexPlan& plan) {
  const int64_t item = self.itemsize(), length = plan.row_length(), positions = plan.positions,
                rows = plan.rows();
  const bool dense = plan.dense_rows(item);
  const Offsets offsets(plan, rows > 1);
  visit_size(item, [&](auto tag) {
    using U = typename decltype(tag)::type;
    runtime::parallel_for(
        0, rows * positions, std::max<int64_t>(1, kGrain / length), [&](int64_t b, int64_t e) {
          for (int64_t row = b / positions; b < e; ++row) {
            const int64_t end = std::min(e, (row + 1) * positions);
            const char* base = self.bytes() + plan.row_offset(row);
            offsets.each_block(b - row * positions, end - row * positions,
                               [&](int64_t first, int64_t n, const int64_t* offset) {
                                 U* to = out.data<U>() + (row * positions + first) * length;
                                 if (length == 1) {
#pragma GCC unroll 8
                                   for (int64_t p = 0; p < n; ++p)
                                     to[p] = *reinterpret_cast<const U*>(base + offset[p]);
                                 } else if (dense) {
                                   for (int64_t p = 0; p < n; ++p)
                                     std::memcpy(to + p * length, base + offset[p],
                                                 static_cast<size_t>(length) * sizeof(U));
                                 } else {
                                   for (int64_t p = 0; p < n; ++p)
                                     each_run(plan, 0, length,
                                              [&](int64_t at, int64_t element, int64_t run, int64_t stride) {
                                                U* o = to + p * length + element;
                                                const char* from = base + offset[p] + at;
                                                for (int64_t i = 0; i < run; ++i)
                                                  o[i] = *reinterpret_cast<const U*>(from + i * stride);
                                              });
                                 }
                               });
            b = end;
          }
        });
  });
}

Tensor read_at(Into into, const Tensor& self, const IndexPlan& plan) {
  const Tensor out = into.empty(plan.shape.span(), self.dtype());
  if (out.numel() == 0) return out;
  on<&read_places>(Out(out), self, plan);
  return out;
}

static void write_places(const Tensor& self, const IndexPlan& plan, const Values& values) {
  const auto repeat = best_variant<PlaneTable>().repeat;
  visit_size(self.itemsize(), [&](auto tag) {
    using U = typename decltype(tag)::type;
    each_place<U>(self, plan, values, [repeat](U* to, const U* v, int64_t n, int64_t stride, int64_t step) {
      if (n == 1)
        *to = *v;
      else if (step && stride == sizeof(U))
        std::memcpy(to, v, static_cast<size_t>(n) * sizeof(U));
      else if (stride == sizeof(U))
        repeat(reinterpret_cast<char*>(to), v, sizeof(U), n);
      else
        for (int64_t i = 0; i < n; ++i)
          *reinterpret_cast<U*>(reinterpret_cast<char*>(to) + i * stride) = v[i * step];
    });
  });
}

void write_at(const Tensor& self, const IndexPlan& plan, const Tensor& given) {
  const Values values(self, plan, given);
  on<&write_places>(Out(self), plan, values);
}

namespace {

/// The positions by slot: those that name slot s are order[start[s]] … in order.
struct BySlot {
  explicit BySlot(const IndexPlan& plan)
      : start(static_cast<size_t>(plan.slots) + 1), order(static_cast<size_t>(plan.positions)) {
    for (int64_t p = 0; p < plan.positions; ++p) ++start[static_cast<size_t>(plan.only_slot(p)) + 1];
    for (size_t s = 1; s < start.size(); ++s) start[s] += start[s - 1];
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t p = 0; p < plan.positions; ++p) {
      const auto s = static_cast<size_t>(plan.only_slot(p));
      if (next[s] == start[s + 1]) [[unlikely]]
        refuse_changed_index();
      order[static_cast<size_t>(next[s]++)] = p;
    }
  }
  std::vector<int64_t> start, order;
};

/// Each place once, from all that goes there.
template <class T>
void add_by_slot(const Tensor& self, const IndexPlan& plan, const T* v, Before before, const T* other) {
  const BySlot by(plan);
  const int64_t length = plan.row_length(), slots = plan.slots;
  runtime::parallel_for(
      0, plan.rows() * slots, std::max<int64_t>(1, kGrain / (length * (1 + plan.positions / slots))),
      [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const int64_t row = i / slots, s = i % slots;
          const auto first = static_cast<size_t>(by.start[static_cast<size_t>(s)]);
          const int64_t count = by.start[static_cast<size_t>(s) + 1] - static_cast<int64_t>(first);
          T* to = reinterpret_cast<T*>(self.bytes() + plan.row_offset(row) + s * plan.slot_step);
          // A new tensor is row-major, so that another's elements lie in the same places.
          const T* base = before == Before::Itself  ? to
                          : before == Before::Zeros ? nullptr
                                                    : other + (to - self.data<T>());
          if (count == 0) {
            if (base == nullptr)
              std::memset(static_cast<void*>(to), 0, static_cast<size_t>(length) * sizeof(T));
            else if (base != to)
              std::memcpy(static_cast<void*>(to), base, static_cast<size_t>(length) * sizeof(T));
            continue;
          }
          const int64_t* order = by.order.data() + first;
          const T* from = v + row * plan.positions * length;
          if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
            best_variant<SliceTable<T>>().add(to, base, from, order, count, length);
          } else {
            for (int64_t j = 0; j < length; ++j) {
              T sum = base ? base[j] : T();
              for (int64_t k = 0; k < count; ++k) sum = added<T>(sum, from[order[k] * length + j]);
              to[j] = sum;
            }
          }
        }
      });
}

/// The positions by the byte offset that they name: those of place i are order[start[i]] …, as they came.
struct ByPlace {
  explicit ByPlace(const IndexPlan& plan) : at(static_cast<size_t>(plan.positions)), order(at.size()) {
    plan.offsets(0, plan.positions, at.data());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) { return at[a] < at[b]; });
    for (size_t k = 0; k < order.size(); ++k)
      if (k == 0 || at[order[k]] != at[order[k - 1]]) start.push_back(k);
    start.push_back(order.size());
  }
  std::vector<int64_t> at;
  std::vector<size_t> order, start;
};

/// What goes to one place is added up in float32, and rounded once (`sum_dtype`).
template <class T>
void add_halves(const Tensor& self, const IndexPlan& plan, const Values& values) {
  const int64_t length = plan.row_length(), positions = plan.positions, rows = plan.rows();
  if (rows == 0 || length == 0 || positions == 0) return;
  const ByPlace by(plan);
  const T* v = values.tensor.data<T>();
  const auto places = static_cast<int64_t>(by.start.size()) - 1;
  const int64_t grain = std::max<int64_t>(1, kGrain / (length * (1 + positions / places)));
  runtime::parallel_for(0, rows * places, grain, [&](int64_t b, int64_t e) {
    std::vector<float> sum(static_cast<size_t>(length));
    for (; b < e; ++b) {
      const int64_t row = b / places;
      const size_t first = by.start[static_cast<size_t>(b % places)],
                   last = by.start[static_cast<size_t>(b % places) + 1];
      char* base = self.bytes() + plan.row_offset(row) + by.at[by.order[first]];
      const auto each = [&](const auto& act) {
        each_run(plan, 0, length, [&](int64_t at, int64_t element, int64_t n, int64_t stride) {
          for (int64_t i = 0; i < n; ++i)
            act(*reinterpret_cast<T*>(base + at + i * stride), sum[static_cast<size_t>(element + i)]);
        });
      };
      each([](const T& place, float& s) { s = static_cast<float>(place); });
      for (size_t k = first; k < last; ++k) {
        const T* from = v + (row * positions + static_cast<int64_t>(by.order[k])) * length * values.step;
        for (int64_t j = 0; j < length; ++j)
          sum[static_cast<size_t>(j)] += static_cast<float>(from[j * values.step]);
      }
      each([](T& place, const float& s) { place = T(s); });
    }
  });
}

}  // namespace

static void add_places(const Tensor& self, const IndexPlan& plan, const Values& values, Before before,
                       const Tensor& other) {
  const int64_t item = self.itemsize(), length = plan.row_length();
  visit(self.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* base = before == Before::Other ? other.data<T>() : nullptr;
    const bool few = before == Before::Itself && plan.slots > 4 * plan.positions;
    if (!is_half_v<T> && plan.slots && !values.single && length * item >= 64 && plan.dense_rows(item) && !few)
      return add_by_slot<T>(self, plan, values.tensor.data<T>(), before, base);
    if (before != Before::Itself) {
      char* to = self.bytes();
      const char* from = reinterpret_cast<const char*>(base);
      runtime::parallel_for(0, self.numel() * item, kGrain * 8, [&](int64_t b, int64_t e) {
        if (from)
          std::memcpy(to + b, from + b, static_cast<size_t>(e - b));
        else
          std::memset(to + b, 0, static_cast<size_t>(e - b));
      });
    }
    if constexpr (is_half_v<T>)
      add_halves<T>(self, plan, values);
    else
      each_place<T>(self, plan, values, [](T* to, const T* v, int64_t n, int64_t stride, int64_t step) {
        if (n == 1)
          *to = added<T>(*to, *v);
        else
          for (int64_t i = 0; i < n; ++i) {
            T& o = *reinterpret_cast<T*>(reinterpret_cast<char*>(to) + i * stride);
            o = added<T>(o, v[i * step]);
          }
      });
  });
}

void add_at(const Tensor& self, const IndexPlan& plan, const Tensor& given, Before before,
            const Tensor& other) {
  const Values values(self, plan, given);
  on<&add_places>(Out(self), plan, values, before, other);
}

}  // namespace adjoint
