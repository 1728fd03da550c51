// The forms of a call: the function itself, in place, and into a tensor given as out=.
//
// Element-wise operators write where they are told to. Of others the function makes a result: with out= in
// that tensor's memory, if the row can (tensor/into.h), it fits and nothing that is read lies there, else
// elsewhere, and it is copied over. What the copy needs of history and of checks is here, for compositions
// that have such forms as well.
#pragma once

#include "dispatch/operator.h"

namespace adjoint {

/// Do a call in the form that it has. Its results are those of the function, or the tensors written.
void perform(const Call& call, Results& results);

/// How often a result was copied to an out=, for tests.
extern std::atomic<uint64_t> results_copied;

/// The tensor takes the value and the history of a result that was computed beside it: `name` in place.
void become_result(const Tensor& self, const Tensor& result, const char* name);

/// The tensor takes the value of a result, and its shape where it has another: `name` with out=, which may be
/// of another type if `converts`.
void write_out(const Tensor& out, const Tensor& result, const char* name, bool converts);

/// Refuse a result that elements of `to` cannot hold for the form in place, and one that is recorded for
/// out=.
void need_castable(DType result, DType to, const char* name);
[[noreturn]] void refuse_recorded_out(const char* name);
/// Refuse an out= that is not where the result is.
void need_device(const char* op, Device device, const Tensor& out);

}  // namespace adjoint
