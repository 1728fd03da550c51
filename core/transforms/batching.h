// Batching: a tensor that stands for a batch of them, one for each sample of a vmap().
//
// What a program sees of such a tensor is one sample: sizes, strides and type. All samples together are
// another tensor, with the batch in front (`samples_of`), which may itself be batched at a level further out,
// require a gradient or have a history of its own. It lies in the meta; the flag kBatched says so, and
// kContiguous is never set, so that what reads memory directly turns away. Storage and version are those of
// the samples: a view of a batched tensor is a view, and a write is a write.
//
// A call passes its door as always: history is recorded on the batched tensors where these need it. Only the
// computation is another: `compute` does it on the samples of the highest level among the inputs, recorded
// there as the program left it. So reverse mode inside and outside of a vmap need nothing of each other. How
// a rule is found: dispatch/batched_call.h. See Note: batching. Start reading at `BatchLevel`.
#pragma once

#include <atomic>
#include <map>
#include <span>
#include <string>

#include "autograd/meta.h"
#include "dispatch/operator.h"
#include "tensor/sparse.h"

namespace adjoint {

/// What draws random numbers inside of a vmap().
enum class Randomness : uint8_t { Error, Different, Same };

/// A vmap() that runs in this thread. Inner ones have higher numbers.
struct BatchLevel {
  uint64_t number;
  /// Samples; -1 where they are computed one by one.
  int64_t size;
  Randomness randomness;
  /// Refuse in torch's words what only a loop over the samples can do.
  bool strict;
  /// The innermost level of tangents that was open before; tangents of later ones are those of batched
  /// tensors, not of samples.
  uint64_t dual_outside;
  /// The first of the nodes that are recorded inside.
  uint64_t first_node;
  // Calls say these, of a pass inside from several threads.
  /// Some sample needs a gradient outside: what the program differentiates inside must be recorded there too.
  std::atomic<bool> records = false;
  /// Memory from outside was written: the program cannot be run again.
  std::atomic<bool> wrote_outside = false;
  BatchLevel* outer;
};

/// What depends on the values of single samples, and so can only be done sample by sample. RuntimeError.
struct PerSample : Error {
  uint64_t level;
  std::string op;
  PerSample(uint64_t l, std::string o, const std::string& message)
      : Error(message), level(l), op(std::move(o)) {}
};

BatchLevel& enter_batch_level(int64_t size, Randomness randomness, bool strict);
/// Leave a level that is open in this thread, and those inside of it.
void leave_batch_level(const BatchLevel& left);
/// The level of that number in this thread; null where it is not open.
BatchLevel* open_batch_level(uint64_t number);

/// Whether what is computed inside of the vmap()s of this thread has a history outside of one of them.
bool records_outside();

/// Whether any tensor with these flags does: a call with it is computed by `compute_batched`.
inline bool stands_for_batch(unsigned flags) { return flags & TensorImpl::kBatched; }
inline bool is_batched(const Tensor& t) { return t->is(TensorImpl::kBatched); }
inline uint64_t batch_level_of(const Tensor& t) { return meta_of(t)->batch_level; }
/// All samples, the batch in front.
inline const Tensor& samples_of(const Tensor& t) { return meta_of(t)->samples; }

/// Whether something holds of a tensor, or of the samples that it stands for, at any level.
template <class F>
bool holds_at_any_level(const Tensor& t, F&& f) {
  const Tensor* at = &t;
  while (!f(*at)) {
    if (!is_batched(*at)) return false;
    at = &samples_of(*at);
  }
  return true;
}

/// The tensor that stands for each of these samples.
Tensor batched(Tensor samples, uint64_t level);
/// The samples of `t` at a level; `t` expanded, where it is the same for all of them.
Tensor unbatched(const Tensor& t, const BatchLevel& level);

/// Whether both stand for a batch of one level, or neither stands for any.
bool are_of_one_batch(const Tensor& a, const Tensor& b);
/// Let a tensor that stands for a batch, and gets the memory of another of its level, stand for that one's
/// samples.
void share_samples(const Tensor& t, const Tensor& from);

/// `t` itself, or, where a node was recorded inside of a vmap(), that for each sample of it.
Tensor of_each_sample(const Tensor& t, const Node& node);

/// What the values of a batched tensor are asked for: refused, so that the vmap() may go on sample by sample.
enum class Asked : uint8_t { Item, Truth, Memory, Shape };
[[noreturn]] void refuse_values(const Tensor& t, Asked what, const char* op);

/// Refuse to add a gradient for each sample to that of a tensor that is the same for all.
void refuse_gradient_per_sample(const Tensor& t, const Tensor& gradient);

inline void refuse_memory(const Tensor& t, const char* op) {
  if (is_batched(t)) [[unlikely]]
    refuse_values(t, Asked::Memory, op);
  if (is_sparse(t)) [[unlikely]]
    refuse_sparse(t, op);
}

/// The parameters of a distribution from which something is to be drawn: for each sample, where each is to
/// have its own numbers.
Tensor batch_for_draws(const Tensor& t, const char* op);

/// The results of a call of which some inputs are batched, without history of their own.
void compute_batched(const Operator& op, std::span<const Value> arguments, Results& results);
/// `type`: what the call computes in.
Tensor compute_batched(const ElementwiseInfo& op, const Tensor* in, const double* parameters, DType type);

/// Let an unbatched tensor, and the view of it that `t` is, stand for a batch from now on: batched values are
/// to be written there, by a call whose arguments after the first they are.
void become_batched(const Tensor& t, const BatchLevel& level, const Operator& op,
                    const Value* arguments = nullptr);

void note_batching_loop(const char* op);
/// How often each operator was computed by a loop over the samples.
std::map<std::string, uint64_t> batching_loops();
void forget_batching_loops();

}  // namespace adjoint
