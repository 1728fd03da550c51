// The planes that convolution reads: each channel of an image with room for the padding, one plane for each
// remainder of a coordinate by the stride (its phase), so that a tap is an offset. Start reading at `Planes`.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cpu/convolution/convolution_pass.h"

namespace adjoint::kernels::convolution {

/// Copies `size` of an image, from coordinates first + i · step, into a plane of `room`; around it zeros.
template <class T>
void fill_plane(const T* image, const int64_t* size, const int64_t* first, const int64_t* step,
                const int64_t* room, T* to) {
  // The coordinates i of the plane that lie within the image.
  int64_t low[3], high[3];
  for (int d = 0; d < 3; ++d) {
    low[d] = std::clamp<int64_t>(first[d] >= 0 ? 0 : ceil_div(-first[d], step[d]), 0, room[d]);
    high[d] = std::clamp<int64_t>(floor_div(size[d] - 1 - first[d], step[d]) + 1, low[d], room[d]);
  }
  const auto& table = best_variant<ConvolutionTable<T>>();
  for (int64_t a = 0; a < room[0]; ++a, to += room[1] * room[2]) {
    const bool inside = a >= low[0] && a < high[0];
    const T* rows = image + (((first[0] + a * step[0]) * size[1] + first[1]) * size[2] + first[2]);
    table.fill(rows, step[1] * size[2], step[2], inside ? low[1] : room[1], inside ? high[1] : room[1],
               room[1], low[2], high[2], room[2], to);
  }
}

/// How many zeros stand before and behind what fill_plane copies along dimension d, at least.
inline int64_t zeros_around(int64_t size, int64_t first, int64_t step, int64_t room) {
  const int64_t before = first >= 0 ? 0 : ceil_div(-first, step), end = floor_div(size - 1 - first, step) + 1;
  return std::max<int64_t>(0, std::min(before, room - std::max(before, end)));
}

/// Pixels of a line of results that are worth their weights: several images' where one has fewer.
inline constexpr int64_t kLine = 512;
/// Images in a line, in planes of so many pixels: a part for each thread.
inline int64_t together(int64_t images, int64_t plane) {
  const int64_t most = std::max<int64_t>(1, kLine / std::max<int64_t>(1, plane));
  return std::clamp<int64_t>(most, 1, std::max<int64_t>(1, ceil_div(images, runtime::get_num_threads())));
}

/// An image's phases that some tap reads, and where each tap reads them. Planes lie by phase and then by
/// image.
struct Planes {
  int64_t room[3], plane, phases = 0, images = 1, beyond = 0;
  std::vector<int64_t> first;  // three for each phase
  std::vector<int64_t> offsets;

  /// With the planes of so many images behind each other; as many as make a line, where that is 0.
  Planes(const Geo& s, int64_t at_once) {
    for (int d = 0; d < 3; ++d) room[d] = s.result[d] + (s.kernel[d] - 1) * s.dilation[d] / s.stride[d];
    std::vector<int64_t> phase_of;
    each(s.kernel, [&](int64_t a, int64_t b, int64_t c) {
      const int64_t k[] = {a, b, c};
      int64_t begin[3];
      for (int d = 0; d < 3; ++d) begin[d] = k[d] * s.dilation[d] % s.stride[d] - s.padding[d];
      int64_t phase = 0;
      while (phase < phases && !std::equal(begin, begin + 3, &first[static_cast<size_t>(phase * 3)])) ++phase;
      if (phase == phases) {
        first.insert(first.end(), begin, begin + 3);
        ++phases;
      }
      phase_of.push_back(phase);
    });
    // Zeros behind a row are those before the next, and likewise of planes.
    int64_t shared[3] = {0, room[1], room[2]};
    for (int64_t p = 0; p < phases; ++p)
      for (int d = 1; d < 3; ++d)
        shared[d] = std::min(
            shared[d], zeros_around(s.image[d], first[static_cast<size_t>(p * 3 + d)], s.stride[d], room[d]));
    for (int d = 1; d < 3; ++d) room[d] -= shared[d];
    beyond = shared[1] * room[2] + shared[2];
    plane = Geo::volume(room);
    images = at_once ? at_once : together(s.images, plane);
    size_t tap = 0;
    each(s.kernel, [&](int64_t a, int64_t b, int64_t c) {
      const int64_t k[] = {a, b, c};
      int64_t shift[3];
      for (int d = 0; d < 3; ++d) shift[d] = k[d] * s.dilation[d] / s.stride[d];
      offsets.push_back(phase_of[tap++] * images * plane + (shift[0] * room[1] + shift[1]) * room[2] +
                        shift[2]);
    });
  }
  /// Of all images.
  int64_t channel() const { return phases * images * plane; }
  template <class T>
  void fill(const Geo& s, const T* image, int64_t number, T* to) const {
    for (int64_t p = 0; p < phases; ++p)
      fill_plane(image, s.image, &first[static_cast<size_t>(p * 3)], s.stride, room,
                 to + (p * images + number) * plane);
  }
};

}  // namespace adjoint::kernels::convolution
