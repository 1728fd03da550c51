// How the computation of a call reaches memory: as a call of one of the routines of kernels/, with its
// tensors as arguments. See Note: devices.
//
//     on<&kernels::ramp>(Out(t), start, step);                            // writes t, which is all that it
//     does const int64_t n = ask<&kernels::linalg::most_true>("det", mask);    // the host must know what it
//     finds
//
// On the CPU either is the call itself. On the meta device the first does nothing, and the second refuses in
// the name of its operator. In guarded memory they open it, call, and close it; and what writes is run again
// on other memory, where it must write the same: so a routine is known by what it is called with, and could
// be called later, or elsewhere.
#pragma once

#include <utility>

#include "runtime/function_ref.h"
#include "tensor/access.h"

namespace adjoint {

/// What a routine writes.
class Out {
 public:
  explicit Out(const Tensor& t) : tensor(t) {}
  const Tensor& tensor;
};

namespace launch {
/// Run on a tensor in guarded memory, and on a copy of it; refuse what does not write the same to both.
void run_guarded(const Tensor& out, runtime::FunctionRef<void(const Tensor&)> routine);
}  // namespace launch

/// A routine that writes `out`, from the other arguments.
template <auto routine, class... X>
void on(Out out, const X&... others) {
  const Access access(out.tensor);
  if (!access) return;
  if (device_of(out.tensor) == Device::Guarded) [[unlikely]]
    return launch::run_guarded(out.tensor, [&](const Tensor& t) { routine(t, others...); });
  routine(out.tensor, others...);
}

/// What a routine finds in `first`, and the other arguments, for `op`. Who looks on is told that they are
/// read.
template <auto routine, class... X>
auto ask(const char* op, const Tensor& first, const X&... others) {
  if (thread_state.watched) [[unlikely]]
    announce_read(first, op);
  const Access access(first, op);
  return routine(first, others...);
}

}  // namespace adjoint
