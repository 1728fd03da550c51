// Reading images at places: checks, layouts, threads. The loops are in grid_sampling.isa.cpp.
#include "kernels/grid_sampling.h"

#include <algorithm>

#include "for_size.h"
#include "kernels/cpu/grid_sampling.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"

namespace adjoint::kernels {

namespace {

constexpr int64_t kPlanes = 16;   // that one task of the transpose writes
constexpr int64_t kPlaces = 256;  // that one task of the others reads at

/// The sizes of a call: `batch` images of `channels` planes, each read at `places` places.
struct Call {
  GridImage image{};
  int64_t batch = 1, channels, places = 1, plane = 1;
  Dims read;  // (…, C, places)

  template <class F>
  void each_tensor(const F&) {}  // it holds none
  /// `leading` is (…, C): the sizes of what is read, or of what is given back, without the rest.
  Call(IntList leading, IntList sizes, const Tensor& grid, const GridSampling& how, const char* op) {
    const auto n = static_cast<int64_t>(sizes.size()), lead = static_cast<int64_t>(leading.size()) - 1;
    const auto known = [&](std::string_view name, std::string_view what,
                           std::initializer_list<const char*> all) {
      const auto found = std::ranges::find(all, name);
      if (found == all.end()) fail<ValueError>(op, "(): ", what, " '", name, "' is not known");
      return found - all.begin();
    };
    image.mode = static_cast<GridMode>(known(how.mode, "mode", {"bilinear", "nearest", "bicubic"}));
    image.padding =
        static_cast<GridPadding>(known(how.padding, "padding_mode", {"zeros", "border", "reflection"}));
    image.align = how.align;
    if ((n != 2 && (n != 3 || image.mode == GridMode::Cubic)) || lead < 0 || grid.dim() != lead + n + 1 ||
        grid.size(-1) != n ||
        !same(grid.sizes().first(static_cast<size_t>(lead)), leading.first(static_cast<size_t>(lead))))
      fail(op,
           "(): expected images of 2 or 3 dimensions (2 for bicubic) and a grid (…, places, dimensions) of "
           "the "
           "same batch, but got images ",
           to_string(leading), " of ", to_string(sizes), " and a grid of shape ", grid.sizes());
    if (how.orders.size() != static_cast<size_t>(n) || std::ranges::min(how.orders) < 0)
      fail(op, "(): expected an order that is not negative for each dimension, but got ",
           to_string(how.orders));
    image.dims = static_cast<int>(n);
    for (int d = 0; d < image.dims; ++d) {
      const auto i = static_cast<size_t>(d);
      image.sizes[d] = sizes[i];
      image.orders[d] = static_cast<int>(std::min<int64_t>(how.orders[i], 9));
      if (sizes[i] < 1)
        fail(op, "(): expected input to have non-empty spatial dimensions, but got ", to_string(sizes));
      if (sizes[i] > (int64_t{1} << 31) - 1 || (plane *= sizes[i]) > (int64_t{1} << 31) - 1)
        fail(op, "(): an image of ", to_string(sizes), " has more than 2**31 - 1 elements");
    }
    read = Dims(leading);
    for (size_t i = 0; i < read.size() - 1; ++i) batch *= read[i];
    channels = read.back();
    for (int64_t i = lead; i < lead + n; ++i) {
      places *= grid.size(i);
      read.push_back(grid.size(i));
    }
  }
  /// task(image, first place, places) for parts of all grids.
  template <class F>
  void each_part(const F& task) const {
    const int64_t parts = (places + kPlaces - 1) / kPlaces;
    runtime::parallel_for(0, batch * parts, std::max<int64_t>(1, 64 / std::max<int64_t>(1, channels)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t t = begin; t < end; ++t) {
                              const int64_t first = t % parts * kPlaces;
                              task(t / parts, first, std::min(kPlaces, places - first));
                            }
                          });
  }
};

void check_types(const Tensor& a, const Tensor& grid, const char* op) {
  if (a.dtype() != grid.dtype() || !a.is_floating())
    fail(op, "(): expected input and grid to have same dtype, but input has ", name_of(a.dtype()),
         " and grid has ", name_of(grid.dtype()));
}

/// The sizes of images of which the last n are spatial: (…, C), and those.
IntList leading_of(const Tensor& x, size_t n) {
  return x.sizes().first(x.sizes().size() - std::min(n, x.sizes().size()));
}

size_t dims_of(const Tensor& grid) {
  return grid.dim() && grid.size(-1) > 0 ? static_cast<size_t>(grid.size(-1)) : 0;
}

}  // namespace

static void sample_all(const Tensor& y, const Call& s, const Tensor& x, const Tensor& grid) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<GridTable<T>>();
    s.each_part([&](int64_t b, int64_t first, int64_t count) {
      table.sample(s.image, x.data<T>() + b * s.channels * s.plane, s.channels,
                   grid.data<T>() + (b * s.places + first) * s.image.dims, count,
                   y.data<T>() + b * s.channels * s.places + first, s.places);
    });
  });
}

Tensor grid_sample(const Tensor& image, const Tensor& places, const GridSampling& how, const char* op) {
  check_types(image, places, op);
  const IntList leading = leading_of(image, dims_of(places));
  const Call s(leading, image.sizes().subspan(leading.size()), places, how, op);
  const DType c = compute_dtype(image.dtype());
  const Tensor x = dense_as(image, c), grid = dense_as(places, c), y = empty(s.read.span(), c);
  if (y.numel()) on<&sample_all>(Out(y), s, x, grid);
  return as_dtype(y, image.dtype());
}

static void give_back_all(const Tensor& x, const Call& s, const Tensor& g, const Tensor& grid) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<GridTable<T>>();
    const int64_t parts = (s.channels + kPlanes - 1) / kPlanes;
    runtime::parallel_for(
        0, s.batch * parts, std::max<int64_t>(1, 4096 / (s.places * std::min(s.channels, kPlanes))),
        [&](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) {
            const int64_t b = t / parts, first = t % parts * kPlanes, row = b * s.channels + first;
            table.transposed(
                s.image, g.data<T>() + row * s.places, s.places, std::min(kPlanes, s.channels - first),
                grid.data<T>() + b * s.places * s.image.dims, s.places, x.data<T>() + row * s.plane);
          }
        });
  });
}

Tensor grid_sample_transposed(const Tensor& gradient, const Tensor& places, IntList sizes,
                              const GridSampling& how, const char* op) {
  check_types(gradient, places, op);
  const IntList leading = leading_of(gradient, sizes.size());
  const Call s(leading, sizes, places, how, op);
  need_shape(gradient, s.read.span(), "a gradient", op);
  const DType c = compute_dtype(gradient.dtype());
  Dims shape(leading);
  for (const int64_t size : sizes) shape.push_back(size);
  const Tensor g = dense_as(gradient, c), grid = dense_as(places, c), x = zeros(shape.span(), c);
  if (g.numel()) on<&give_back_all>(Out(x), s, g, grid);
  return as_dtype(x, gradient.dtype());
}

static void find_slopes(const Tensor& to, const Call& s, const Tensor& g, const Tensor& x,
                        const Tensor& grid) {
  with_floating(to.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<GridTable<T>>();
    s.each_part([&](int64_t b, int64_t first, int64_t count) {
      const int64_t at = (b * s.places + first) * s.image.dims;
      table.slopes(s.image, g.data<T>() + b * s.channels * s.places + first, s.places,
                   x.data<T>() + b * s.channels * s.plane, s.channels, grid.data<T>() + at, count,
                   to.data<T>() + at);
    });
  });
}

Tensor grid_sample_slopes(const Tensor& gradient, const Tensor& image, const Tensor& places,
                          const GridSampling& how, const char* op) {
  check_types(image, places, op);
  const IntList leading = leading_of(image, dims_of(places));
  const Call s(leading, image.sizes().subspan(leading.size()), places, how, op);
  check_types(gradient, image, op);
  need_shape(gradient, s.read.span(), "a gradient", op);
  const DType c = compute_dtype(image.dtype());
  const Tensor g = dense_as(gradient, c), x = dense_as(image, c), grid = dense_as(places, c),
               to = empty(places.sizes(), c);
  if (to.numel()) on<&find_slopes>(Out(to), s, g, x, grid);
  return as_dtype(to, places.dtype());
}

}  // namespace adjoint::kernels
