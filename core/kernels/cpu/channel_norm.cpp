// Normalisation by channels: batch, instance and group normalisation.
//
// What shares a mean is worked on at once, so that it is read from memory one time where it fits in the
// cache. A channel lies in runs, one for each image; or, where channels are the innermost dimension or images
// are small, in columns, of which neighbouring ones are worked on together. Start reading at `Pieces`.
#include "kernels/cpu/channel_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "for_size.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/normalization.h"
#include "kernels/slices.h"

namespace adjoint::kernels {

namespace {

/// Whether channels are the innermost dimension of (N, C, …), and all others in order.
bool channels_last(const Tensor& t) {
  int64_t expected = 1;
  auto lies = [&](int64_t d) {
    const bool right = t.size(d) == 1 || t.stride(d) == expected;
    expected *= t.size(d);
    return right;
  };
  if (!lies(1)) return false;
  for (int64_t d = t.dim() - 1; d > 1; --d)
    if (!lies(d)) return false;
  return lies(0);
}

/// How the elements of (N, C, …) lie, and which of them share their statistics.
struct Pieces {
  int64_t images, channels, positions, groups;
  bool last, columns;

  Pieces(const Tensor& x, int64_t groups)
      : images(x.size(0)), channels(x.size(1)), positions(1), groups(groups) {
    for (int64_t d = 2; d < x.dim(); ++d) positions *= x.size(d);
    last = !x.is_contiguous();
    columns = last || positions < 64;
  }

  int64_t sets() const { return groups ? images * groups : channels; }
  int64_t elements() const { return groups ? channels / groups * positions : images * positions; }
  /// Columns of a channel that lie side by side.
  int64_t repeat() const { return last ? 1 : positions; }
  /// Channels that are worked on at once: their columns have room in a tile.
  int64_t together() const {
    return columns ? std::max<int64_t>(1, kChannelColumns / std::max<int64_t>(1, repeat())) : 1;
  }

  /// A run of `length` elements of one channel, or `count` channels' columns.
  struct Piece {
    int64_t at, channel, count, set, length, rows, stride;
  };
  /// f(piece) for all of an image's channels [first, last), or of the whole batch where no groups are asked
  /// for.
  template <class F>
  void each(int64_t image, int64_t first, int64_t end, int64_t set, const F& f) const {
    const int64_t whole = channels * positions, image_end = groups ? image + 1 : images;
    if (columns && !groups) {
      // Images below each other: of rows (position, channel), or of (channel, position).
      f(Piece{last ? first : first * positions, first, end - first, set, 0,
              last ? images * positions : images, last ? channels : whole});
      return;
    }
    for (int64_t n = image; n < image_end; ++n)
      for (int64_t c = first; c < end; c += together()) {
        const int64_t count = std::min(together(), end - c);
        f(Piece{n * whole + (last ? c : c * positions), c, count, set, positions, last ? positions : 1,
                last ? channels : whole});
      }
  }
  /// f(first set, its image, its first channel, one behind the last channel) for all that is worked on at
  /// once, in parallel.
  template <class F>
  void share(const F& f) const {
    const int64_t step = groups ? 1 : together(),
                  units = groups ? images * groups : (channels + step - 1) / step;
    const int64_t work = elements() * step;
    runtime::parallel_for(0, units, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              if (groups) {
                                const int64_t wide = channels / groups, g = i % groups;
                                f(i, i / groups, g * wide, (g + 1) * wide);
                              } else {
                                f(i * step, int64_t{0}, i * step, std::min(channels, (i + 1) * step));
                              }
                            }
                          });
  }
  /// The set of a channel of a piece.
  int64_t set_of(const Piece& p, int64_t channel) const { return groups ? p.set : channel; }
};
using Piece = Pieces::Piece;

/// A mean and a sum of squares, to which others are added.
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double n, double m, double s) {
    if (n == 0) return;
    const double off = m - mean, share = n / (count + n);
    squares += s + off * off * count * share;
    mean += off * share;
    count += n;
  }
};

template <class T>
const T* values(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

/// `t` of dtype c, with channels first or last.
Tensor prepared(const Tensor& t, DType c) {
  if (!t.is_contiguous() && channels_last(t)) return laid_as(t, t, c);
  return dense_as(t, c);
}

void check(const Tensor& self, int64_t groups, const char* op) {
  if (self.dim() < 2)
    fail(op, "(): expected at least 2 dimensions (N, C, …), but got input of size ", self.sizes());
  need_floating(self.dtype(), op);
  if (groups < 0 || (groups > 0 && self.size(1) % groups))
    fail(op,
         "(): Expected number of channels in input to be divisible by num_groups, but got input of shape ",
         self.sizes(), " and num_groups=", groups);
}
void need_channels(const Tensor& t, const Tensor& self, const char* what, const char* op) {
  if (t.defined() && (t.dim() != 1 || t.size(0) != self.size(1)))
    fail(op, "(): Expected ", what,
         " to be a vector of size equal to the number of channels in input, but got ", what, " of shape ",
         t.sizes(), " and input of shape ", self.sizes());
}
Dims statistics_shape(const Pieces& s) { return s.groups ? Dims{s.images, s.groups} : Dims{s.channels}; }

double scale_of(double variance, double eps) { return 1.0 / std::sqrt(variance + eps); }

}  // namespace

static void normalize_channels(const Tensor& y, const Tensor& mean, const Tensor& variance, const Tensor& x,
                               const Tensor& w, const Tensor& b, const Pieces& s, bool fixed, double eps) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<ChannelNormTable<T>>();
    const T *px = x.data<T>(), *pw = values<T>(w), *pb = values<T>(b);
    T *py = y.data<T>(), *pm = mean.data<T>(), *pv = variance.data<T>();
    auto find = [&](int64_t set, int64_t image, int64_t first, int64_t end) {
      Moments found[kChannelColumns];
      s.each(image, first, end, set, [&](const Piece& p) {
        double m[kChannelColumns], q[kChannelColumns];
        if (!s.columns) {
          table.moments(px + p.at, p.length, m, q);
          found[0].add(static_cast<double>(p.length), m[0], q[0]);
          return;
        }
        const int64_t repeat = s.repeat();
        table.column_moments(px + p.at, p.rows, p.stride, p.count * repeat, m, q);
        for (int64_t j = 0; j < p.count; ++j) {
          double all_m = m[j], all_q = q[j];
          if (repeat > 1)
            table.join(m + j * repeat, q + j * repeat, repeat, static_cast<double>(p.rows), &all_m, &all_q);
          found[s.groups ? 0 : j].add(static_cast<double>(p.rows * repeat), all_m, all_q);
        }
      });
      for (int64_t i = 0; i < (s.groups ? 1 : end - first); ++i) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        pm[set + i] = static_cast<T>(s.elements() ? found[i].mean : nan);
        pv[set + i] = static_cast<T>(s.elements() ? found[i].squares / found[i].count : nan);
      }
    };
    s.share([&](int64_t set, int64_t image, int64_t first, int64_t end) {
      if (!fixed) find(set, image, first, end);
      s.each(image, first, end, set, [&](const Piece& p) {
        T m[kChannelColumns], k[kChannelColumns], z[kChannelColumns];
        const int64_t repeat = s.columns ? s.repeat() : 1;
        for (int64_t j = 0; j < p.count; ++j) {
          const int64_t channel = p.channel + j, at = s.set_of(p, channel);
          const T scale = static_cast<T>(scale_of(pv[at], eps)), mean_of = pm[at],
                  by = pw ? scale * pw[channel] : scale, more = pb ? pb[channel] : T(0);
          for (int64_t r = j * repeat; r < (j + 1) * repeat; ++r) {
            m[r] = mean_of;
            k[r] = by;
            z[r] = more;
          }
        }
        if (s.columns)
          table.column_scale(px + p.at, py + p.at, p.rows, p.stride, p.count * repeat, m, k, z);
        else
          table.scale(px + p.at, py + p.at, p.length, m[0], k[0], z[0]);
      });
    });
  });
}

std::tuple<Tensor, Tensor, Tensor> channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                const Tensor& fixed_mean, const Tensor& fixed_variance,
                                                int64_t groups, double eps, const char* op) {
  check(self, groups, op);
  const bool fixed = fixed_mean.defined();
  need_channels(weight, self, "weight", op);
  need_channels(bias, self, "bias", op);
  need_channels(fixed_mean, self, "running_mean", op);
  need_channels(fixed_variance, self, "running_var", op);
  if (fixed != fixed_variance.defined() || (fixed && groups))
    fail(op, "(): a mean and a variance are given together, and for channels, not for groups");
  const DType c = compute_dtype(self.dtype());
  const Tensor x = prepared(self, c), w = weight.defined() ? dense_as(weight, c) : Tensor(),
               b = bias.defined() ? dense_as(bias, c) : Tensor();
  const Pieces s(x, groups);
  const Dims shape = statistics_shape(s);
  const Tensor y = empty_as(x, c), mean = fixed ? dense_as(fixed_mean, c) : empty(shape.span(), c),
               variance = fixed ? dense_as(fixed_variance, c) : empty(shape.span(), c);
  if (fixed)
    on<&normalize_channels>(Out(y), mean, variance, x, w, b, s, fixed, eps);
  else
    on<&normalize_channels>(Out(y), Out(mean), Out(variance), x, w, b, s, fixed, eps);
  if (fixed) return {as_dtype(y, self.dtype()), Tensor(), Tensor()};
  return {as_dtype(y, self.dtype()), as_dtype(mean, self.dtype()), as_dtype(variance, self.dtype())};
}

static void normalize_channels_backward(const Tensor& gx, const Tensor& gw, const Tensor& gb,
                                        const Tensor& gy, const Tensor& x, const Tensor& w, const Tensor& m,
                                        const Tensor& v, const Pieces& s, int64_t groups, bool fixed,
                                        double eps) {
  const bool want_x = gx.defined(), want_w = gw.defined(), want_b = gb.defined();
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<ChannelNormTable<T>>();
    const T *pg = gy.data<T>(), *px = x.data<T>(), *pw = values<T>(w), *pm = m.data<T>(), *pv = v.data<T>();
    T* to = want_x ? gx.data<T>() : nullptr;
    // Of each image's channels, or of the channels: sums of g, and of g (x - mean) / deviation.
    const int64_t images = groups ? s.images : 1;
    std::vector<double> of_g(static_cast<size_t>(images * s.channels)), of_gx(of_g.size());
    s.share([&](int64_t set, int64_t image, int64_t first, int64_t end) {
      double *a = of_g.data() + (groups ? image * s.channels : 0),
             *b = of_gx.data() + (groups ? image * s.channels : 0);
      auto means = [&](const Piece& p, int64_t repeat, T* out) {
        for (int64_t j = 0; j < p.count; ++j) {
          const T mean = pm[s.set_of(p, p.channel + j)];
          for (int64_t r = 0; r < repeat; ++r) *out++ = mean;
        }
      };
      const int64_t repeat = s.columns ? s.repeat() : 1;
      // Of fixed statistics none of the sums goes into the gradient of the image.
      if (!fixed || want_w || want_b)
        s.each(image, first, end, set, [&](const Piece& p) {
          T mean_of[kChannelColumns];
          means(p, repeat, mean_of);
          double sum[kChannelColumns], product[kChannelColumns];
          if (s.columns)
            table.column_sums(pg + p.at, px + p.at, p.rows, p.stride, p.count * repeat, mean_of, sum,
                              product);
          else
            table.sums(pg + p.at, px + p.at, p.length, mean_of[0], sum, product);
          for (int64_t j = 0, at = 0; j < p.count; ++j) {
            double of_one = 0, of_both = 0;
            for (int64_t r = 0; r < repeat; ++r, ++at) {
              of_one += sum[at];
              of_both += product[at];
            }
            a[p.channel + j] += of_one;
            b[p.channel + j] += of_both;
          }
        });
      for (int64_t i = first; i < end && s.elements(); ++i) b[i] *= scale_of(pv[groups ? set : i], eps);
      if (!want_x) return;
      // gx = r (h - mean(h) - xh mean(h xh)) with h = g weight, xh = (x - mean) r.
      const auto weight_of = [&](int64_t i) { return pw ? static_cast<double>(pw[i]) : 1.0; };
      double h = 0, hx = 0;
      if (groups)
        for (int64_t i = first; i < end; ++i) {
          h += a[i] * weight_of(i);
          hx += b[i] * weight_of(i);
        }
      s.each(image, first, end, set, [&](const Piece& p) {
        T mean_of[kChannelColumns], scale[kChannelColumns], slope[kChannelColumns], shift[kChannelColumns];
        means(p, repeat, mean_of);
        const double n = static_cast<double>(s.elements());
        for (int64_t j = 0; j < p.count; ++j) {
          const int64_t i = p.channel + j;
          const double r = scale_of(pv[s.set_of(p, i)], eps);
          const T by = static_cast<T>(r * weight_of(i)),
                  steep = fixed ? T(0) : static_cast<T>(-r * r * (groups ? hx : b[i] * weight_of(i)) / n),
                  more = fixed ? T(0) : static_cast<T>(-r * (groups ? h : a[i] * weight_of(i)) / n);
          for (int64_t k = j * repeat; k < (j + 1) * repeat; ++k) {
            scale[k] = by;
            slope[k] = steep;
            shift[k] = more;
          }
        }
        if (s.columns)
          table.column_back(pg + p.at, px + p.at, to + p.at, p.rows, p.stride, p.count * repeat, mean_of,
                            scale, slope, shift);
        else
          table.back(pg + p.at, px + p.at, to + p.at, p.length, mean_of[0], scale[0], slope[0], shift[0]);
      });
    });
    for (int64_t i = 0; i < s.channels; ++i) {
      double sum = 0, product = 0;
      for (int64_t n = 0; n < images; ++n) {
        sum += of_g[static_cast<size_t>(n * s.channels + i)];
        product += of_gx[static_cast<size_t>(n * s.channels + i)];
      }
      if (want_w) gw.data<T>()[i] = static_cast<T>(product);
      if (want_b) gb.data<T>()[i] = static_cast<T>(sum);
    }
  });
}

std::tuple<Tensor, Tensor, Tensor> channel_norm_backward(const Tensor& g, const Tensor& self,
                                                         const Tensor& weight, const Tensor& mean,
                                                         const Tensor& variance, int64_t groups, double eps,
                                                         bool fixed, WantedOfNorm wanted, const char* op) {
  check(self, groups, op);
  need_channels(weight, self, "weight", op);
  const DType c = compute_dtype(self.dtype());
  const Tensor x = prepared(self, c);
  const Pieces s(x, groups);
  if (!same(g.sizes(), self.sizes()) || !same(mean.sizes(), statistics_shape(s).span()) ||
      !same(variance.sizes(), mean.sizes()))
    fail(op, "(): expected a gradient like the input and statistics of shape ",
         to_string(statistics_shape(s).span()), ", but got shapes ", g.sizes(), ", ", mean.sizes(), " and ",
         variance.sizes(), " beside ", self.sizes());
  const Tensor gy = laid_as(g, x, c), w = weight.defined() ? dense_as(weight, c) : Tensor(),
               m = dense_as(mean, c), v = dense_as(variance, c);
  const int64_t each_channel[] = {s.channels};
  const Tensor gx = wanted.input ? empty_as(x, c) : Tensor(),
               gw = wanted.weight ? zeros(each_channel, c) : Tensor(),
               gb = wanted.bias ? zeros(each_channel, c) : Tensor();
  on<&normalize_channels_backward>(Out(gx), Out(gw), Out(gb), gy, x, w, m, v, s, groups, fixed, eps);
  auto back = [](const Tensor& t, DType d) { return t.defined() ? as_dtype(t, d) : t; };
  const DType wd = weight.defined() ? weight.dtype() : self.dtype();
  return {back(gx, self.dtype()), back(gw, wd), back(gb, wd)};
}

}  // namespace adjoint::kernels
