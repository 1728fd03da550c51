// gather and scatter: an index for each element, along one dimension.
//
// All but that dimension are lines that have nothing to do with each other: they are shared among threads,
// and each is worked through in order. Where lines lie side by side in memory, they are taken in tiles so
// narrow that what a tile can reach stays in the cache. Start reading at `Lines`.
#include <thread>

#include "kernels/copy.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "runtime/function_ref.h"
#include "runtime/interrupt.h"
#include "runtime/parallel.h"

namespace adjoint {

namespace {

/// What a tile may reach, in bytes, and the elements below which it does not pay: each run of it begins on
/// other pages.
constexpr int64_t kReach = 1 << 22, kNarrow = 1024;
/// The elements of a line after which its work may be interrupted.
constexpr int64_t kLong = 1 << 22;

/// Up to three operands, the index first, over the index's shape. The dimension `d` of the second is the one
/// that the index chooses along: its stride is left out.
class Lines {
 public:
  static constexpr int kMost = 3;

  Lines(const Tensor& index, const Tensor& chosen, int64_t d, const Tensor& other)
      : count_(other.defined() ? 3 : 2) {
    const Tensor* operands[kMost] = {&index, &chosen, &other};
    for (int k = 0; k < count_; ++k) base_[k] = operands[k]->bytes();
    size_ = chosen.dim() ? chosen.size(d) : 1;
    step_ = chosen.dim() ? chosen.stride(d) * chosen.itemsize() : 0;
    // The lines' dimensions, merged where every operand lies without a gap; then the one along which indices
    // follow each other.
    for (int64_t i = 0; i < index.dim(); ++i) {
      int64_t steps[kMost];
      for (int k = 0; k < count_; ++k) {
        const Tensor& t = *operands[k];
        steps[k] = t.dim() == 0 || (k == 1 && i == d) ? 0 : t.stride(i) * t.itemsize();
      }
      if (i == d) {
        along_ = index.size(i);
        for (int k = 0; k < count_; ++k) along_steps_[k] = steps[k];
        continue;
      }
      if (index.size(i) == 1) continue;
      bool merge = !sizes_.empty() && last_ != d - 1;
      for (int k = 0; k < count_ && merge; ++k) merge = steps_[k].back() == steps[k] * index.size(i);
      if (merge)
        sizes_.back() *= index.size(i);
      else
        sizes_.push_back(index.size(i));
      for (int k = 0; k < count_; ++k) {
        if (merge)
          steps_[k].back() = steps[k];
        else
          steps_[k].push_back(steps[k]);
      }
      last_ = i;
    }
    // Runs go along the dimension itself, or across lines that lie closer.
    item_ = chosen.itemsize();
    if (!sizes_.empty()) {
      const int64_t near = std::abs(steps_[1].back());
      across_ = sizes_.back() >= 8 && (near != 0 && near < std::abs(step_));
    }
  }

  /// Whether runs are whole lines without gaps, and all of them.
  bool whole_lines(const Tensor& chosen) const {
    return !across_ && step_ == item_ && chosen.is_contiguous() &&
           product(sizes_.span()) * size_ == chosen.numel();
  }
  int64_t size() const { return size_; }
  int64_t step() const { return step_; }

  /// f(pointers, steps, n) for runs of n elements. One thread works on a line, from its
  /// first element on, unless lines may be `cut`.
  void run(runtime::FunctionRef<void(char* const* p, const int64_t* steps, int64_t n)> f,
           bool cut = false) const {
    const int outer = static_cast<int>(sizes_.size()) - (across_ ? 1 : 0);
    int64_t lines = 1;
    for (int i = 0; i < outer; ++i) lines *= sizes_[i];
    const int64_t width = across_ ? sizes_.back() : 1, threads = runtime::get_num_threads();
    int64_t tile = std::min(width, std::max(kNarrow, kReach / item_ / std::max<int64_t>(1, size_)));
    if (lines < threads) tile = std::min(tile, std::max<int64_t>(128, (width - 1) / threads + 1));
    const int64_t tiles = (width - 1) / tile + 1;
    int64_t steps[kMost] = {};
    for (int k = 0; k < count_; ++k) steps[k] = across_ ? steps_[k].back() : along_steps_[k];
    // Pieces of a line that runs go along.
    const int64_t piece = cut && !across_ ? 16384 : std::max<int64_t>(1, along_),
                  pieces = across_ ? 1 : (along_ - 1) / piece + 1;
    const int64_t units = tiles * pieces, work = std::min(piece, along_) * std::min(tile, width);
    runtime::parallel_for(0, lines * units, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)),
                          [&](int64_t b, int64_t e) {
                            for (int64_t unit = b; unit < e; ++unit) {
                              char* p[kMost] = {};
                              for (int k = 0; k < count_; ++k) p[k] = base_[k];
                              int64_t rest = unit / units;
                              for (int i = outer - 1; rest; --i) {
                                for (int k = 0; k < count_; ++k) p[k] += rest % sizes_[i] * steps_[k][i];
                                rest /= sizes_[i];
                              }
                              if (!across_) {
                                const int64_t first = unit % units * piece;
                                for (int k = 0; k < count_; ++k) p[k] += first * steps[k];
                                f(p, steps, std::min(piece, along_ - first));
                                continue;
                              }
                              const int64_t first = unit % units * tile, n = std::min(tile, width - first);
                              for (int k = 0; k < count_; ++k) p[k] += first * steps[k];
                              for (int64_t i = 0; i < along_; ++i) {
                                f(p, steps, n);
                                for (int k = 0; k < count_; ++k) p[k] += along_steps_[k];
                              }
                            }
                          });
  }

 private:
  int count_;
  char* base_[kMost] = {};
  int64_t size_, step_, item_, along_ = 1, last_ = -1;
  int64_t along_steps_[kMost] = {};
  Dims sizes_, steps_[kMost];
  bool across_ = false;
};

[[noreturn, gnu::cold]] void refuse_index(int64_t v, int64_t low, int64_t high, int64_t d, const char* op) {
  if (low < 0)
    fail<IndexError>(op, "(): out of range: tried to access index ", v, " on a tensor of ", high,
                     " elements.");
  fail(op, "(): index ", v, " is out of bounds for dimension ", d, " with size ", high);
}

/// Indices are in [low, high). Each is looked at on its way into an address, since another thread may write
/// it.
struct Bounds {
  int64_t low, high, d;
  const char* op;

  [[gnu::always_inline]] int64_t used(const int64_t* at) const {
    const int64_t v = read_once(at);
    if (v < low || v >= high) [[unlikely]]
      refuse_index(v, low, high, d, op);
    return v;
  }
};

/// move(i, v) for the indices v of a run. `Quick`: with a loop of its own for indices side by side.
template <bool Quick, class F>
void each_index(const Bounds& given, const char* index, int64_t stride, int64_t n, const F& move) {
  const Bounds bounds = given;  // in registers
  if (Quick && stride == sizeof(int64_t)) {
    const auto* v = reinterpret_cast<const int64_t*>(index);
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; ++i) move(i, bounds.used(v + i));
  } else {
    for (int64_t i = 0; i < n; ++i)
      move(i, bounds.used(reinterpret_cast<const int64_t*>(index + i * stride)));
  }
}

/// What a new tensor holds before elements are scattered into it: another's elements, or zeros. Whole lines
/// get them when they are worked on, and are still in the cache.
struct Begin {
  Begin(const Tensor& out, const Tensor& base, bool by_line)
      : out(out.bytes()), base(base.defined() ? base.bytes() : nullptr), by_line(by_line) {
    if (by_line) return;
    if (base.defined())
      copy_into(out, base);
    else
      copy_into(out, scalar_tensor(Scalar(0), out.dtype()));
  }
  void line(char* to, int64_t bytes) const {
    if (base)
      std::memcpy(to, base + (to - out), static_cast<size_t>(bytes));
    else
      std::memset(to, 0, static_cast<size_t>(bytes));
  }
  char* out;
  const char* base;
  bool by_line;
};

/// combine(old, value) where `index` says. A single `value` is read again and again. `Fast` has loops of its
/// own for what lies side by side.
template <class T, bool Fast, class F>
void scatter_with(const Lines& lines, const Bounds& bounds, const Begin& begin, bool fixed, T value,
                  const F& combine) {
  const int64_t step = lines.step();
  const auto caller = std::this_thread::get_id();
  lines.run([&](char* const* first, const int64_t* steps, int64_t total) {
    if (begin.by_line) begin.line(first[1], lines.size() * static_cast<int64_t>(sizeof(T)));
    for (int64_t done = 0; done < total; done += kLong) {
      // A line may be longer than anybody waits for. Only the thread that was called may ask.
      if (done && std::this_thread::get_id() == caller) runtime::check_interrupt();
      const int64_t n = std::min(kLong, total - done);
      const char* const at = first[0] + done * steps[0];
      char* const to = first[1] + done * steps[1];
      const int64_t across = steps[1], stride = fixed ? 0 : steps[2];
      const char* const from = fixed ? reinterpret_cast<const char*>(&value) : first[2] + done * stride;
      const auto strided = [&](int64_t i) { return *reinterpret_cast<const T*>(from + i * stride); };
      const auto anywhere = [&](int64_t i, int64_t v) -> T& {
        return *reinterpret_cast<T*>(to + i * across + v * step);
      };
      const auto run = [&]<bool Quick = true>(const auto& place, const auto& element) {
        each_index<Quick>(bounds, at, steps[0], n, [&](int64_t i, int64_t v) {
          T& o = place(i, v);
          o = combine(o, element(i));
        });
      };
      if constexpr (Fast) {
        const auto dense = [from](int64_t i) { return reinterpret_cast<const T*>(from)[i]; };
        const auto in_line = [to](int64_t, int64_t v) -> T& { return reinterpret_cast<T*>(to)[v]; };
        const bool by_line = across == 0 && step == sizeof(T);
        if (stride == sizeof(T)) {
          if (by_line)
            run(in_line, dense);
          else
            run(anywhere, dense);
          continue;
        }
        if (by_line) {
          run(in_line, strided);
          continue;
        }
      }
      run.template operator()<!Fast>(anywhere, strided);  // its only loop, or one for what is rare
    }
  });
}

template <class T>
T multiplied(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a && b;
  else
    return static_cast<T>(static_cast<compute_t<T>>(a) * static_cast<compute_t<T>>(b));
}

/// The larger or smaller of two; NaN where one of them is.
template <class T>
T extreme(T a, T b, bool largest) {
  if constexpr (is_complex_v<T>)
    return a;
  else
    return b != b || (largest ? b > a : b < a) ? b : a;
}

}  // namespace

static void gather_all(const Tensor& out, const Tensor& self, int64_t d, const Tensor& index, bool flat,
                       const char* op) {
  const Lines lines(index, self, d, out);
  const int64_t size = lines.size(), step = lines.step();
  const Bounds bounds{flat ? -size : 0, size, d, op};
  visit_size(self.itemsize(), [&](auto tag) {
    using U = typename decltype(tag)::type;
    lines.run(
        [&](char* const* p, const int64_t* steps, int64_t n) {
          const char* from = p[1];
          const int64_t across = steps[1], stride = steps[2];
          char* to = p[2];
          auto run = [&](auto&& element) {
            if (stride == sizeof(U))
              each_index<true>(bounds, p[0], steps[0], n,
                               [&](int64_t i, int64_t v) { reinterpret_cast<U*>(to)[i] = element(i, v); });
            else
              each_index<false>(bounds, p[0], steps[0], n, [&](int64_t i, int64_t v) {
                *reinterpret_cast<U*>(to + i * stride) = element(i, v);
              });
          };
          if (steps[0] == 0 && across == sizeof(U) && stride == sizeof(U)) {  // one index for the run
            const int64_t v = bounds.used(reinterpret_cast<const int64_t*>(p[0]));
            std::memcpy(to, from + (v < 0 ? v + size : v) * step, static_cast<size_t>(n) * sizeof(U));
          } else if (flat) {
            run([&](int64_t i, int64_t v) {
              return *reinterpret_cast<const U*>(from + i * across + (v + (v < 0 ? size : 0)) * step);
            });
          } else if (across == 0 && step == sizeof(U)) {
            run([from](int64_t, int64_t v) { return reinterpret_cast<const U*>(from)[v]; });
          } else {
            run([from, across, step](int64_t i, int64_t v) {
              return *reinterpret_cast<const U*>(from + i * across + v * step);
            });
          }
        },
        true);
  });
}

void gather_into(const Tensor& out, const Tensor& self, int64_t d, const Tensor& index, bool flat,
                 const char* op) {
  if (index.numel() == 0) return;
  on<&gather_all>(Out(out), self, d, index, flat, op);
}

static void scatter_all(const Tensor& out, const Tensor& base, int64_t d, const Tensor& index,
                        const Tensor& src, const Scalar& value, Scattering how, const char* op) {
  if ((how == Scattering::Add || how == Scattering::Multiply) && sum_dtype(out.dtype()) != out.dtype()) {
    const DType type = sum_dtype(out.dtype());
    const Tensor wide = empty(out.sizes(), type);
    const bool ieee = out.dtype() == DType::Float16;
    const Scalar rounded(static_cast<double>(ieee ? static_cast<float>(value.to<Half>())
                                                  : static_cast<float>(value.to<BFloat16>())));
    scatter_all(wide, base.defined() ? copy_of(base, type) : base, d, index,
                src.defined() ? copy_of(src, type) : src, rounded, how, op);
    return copy_into(out, wide);
  }
  if (index.numel() == 0) {
    const Begin begin(out, base, false);
    return;
  }
  const Lines lines(index, out, d, src);
  const Begin begin(out, base, lines.whole_lines(out) && (!base.defined() || base.is_contiguous()));
  const Bounds bounds{0, lines.size(), d, op};
  const bool fixed = !src.defined();
  if (how == Scattering::Write) {
    alignas(16) char bits[16] = {};
    if (fixed)
      visit(out.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T number = value.to<T>();
        std::memcpy(bits, static_cast<const void*>(&number), sizeof(T));
      });
    return visit_size(out.itemsize(), [&](auto size) {
      using U = typename decltype(size)::type;
      U number;
      std::memcpy(static_cast<void*>(&number), bits, sizeof(U));
      scatter_with<U, true>(lines, bounds, begin, fixed, number, [](const U&, const U& v) { return v; });
    });
  }
  visit(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T number = fixed ? value.to<T>() : T();
    if constexpr (is_half_v<T>)  // sums and products were made of another type
      scatter_with<T, false>(lines, bounds, begin, fixed, number,
                             [how](T a, T b) { return extreme(a, b, how == Scattering::Largest); });
    else if (how == Scattering::Add)
      scatter_with<T, true>(lines, bounds, begin, fixed, number, [](T a, T b) { return added<T>(a, b); });
    else
      scatter_with<T, false>(lines, bounds, begin, fixed, number, [how](T a, T b) {
        return how == Scattering::Multiply ? multiplied<T>(a, b) : extreme(a, b, how == Scattering::Largest);
      });
  });
}

void scatter_into(const Tensor& out, const Tensor& base, int64_t d, const Tensor& index, const Tensor& src,
                  const Scalar& value, Scattering how, const char* op) {
  on<&scatter_all>(Out(out), base, d, index, src, value, how, op);
}

}  // namespace adjoint
