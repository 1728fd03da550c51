#include "transforms/batching.h"

#include <optional>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/batched_call.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "ops/arithmetic.h"
#include "ops/part.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/writing.h"
#include "runtime/random.h"
#include "transforms/forward.h"

namespace adjoint {

// --- Levels ---------------------------------------------------------------------------------------

namespace {
/// New memory is made inside of a level; null: of none.
void mark_new(const BatchLevel* level) {
  thread_state.made_in = level ? std::max<uint32_t>(1, static_cast<uint32_t>(level->number)) : 0;
}
}  // namespace

BatchLevel& enter_batch_level(int64_t size, Randomness randomness, bool strict) {
  static std::atomic<uint64_t> last{0};
  auto* level = new BatchLevel{.number = ++last,
                               .size = size,
                               .randomness = randomness,
                               .strict = strict,
                               .dual_outside = thread_state.dual_level ? thread_state.dual_level->number : 0,
                               .first_node = thread_state.sequence,
                               .outer = thread_state.batch_level};
  mark_new(level);
  return *(thread_state.batch_level = level);
}

bool records_outside() {
  for (const BatchLevel* level = thread_state.batch_level; level; level = level->outer)
    if (level->records) return true;
  return false;
}

BatchLevel* open_batch_level(uint64_t number) {
  BatchLevel* level = thread_state.batch_level;
  while (level && level->number != number) level = level->outer;
  return level;
}

void leave_batch_level(const BatchLevel& left) {
  for (bool found = false; !found;) {
    BatchLevel* level = thread_state.batch_level;
    found = level == &left;
    thread_state.batch_level = level->outer;
    mark_new(level->outer);
    delete level;
  }
}

namespace {

BatchLevel& level_of(const Tensor& t, const char* op) {
  if (BatchLevel* level = open_batch_level(batch_level_of(t))) return *level;
  fail(op, "(): a tensor of shape ", t.sizes(), " that belongs to a vmap() was used ",
       thread_state.batch_level ? "in another vmap() than that, " : "outside of it, ",
       "or in another thread: your tensor may have escaped from inside a function being vmapped. It stood "
       "for one sample of the batch while that vmap() ran, and for nothing since. Return it from the "
       "function that is mapped, and use what vmap() returns");
}

/// The tensor that is batched at the highest level.
const Tensor& innermost(const Operator& op, std::span<const Value> arguments) {
  uint64_t highest = 0;
  const Tensor* of = nullptr;
  each_tensor(op, arguments.data(), [&](const Tensor& t, int) {
    if (!is_batched(t) || batch_level_of(t) <= highest) return;
    highest = batch_level_of(t);
    of = &t;
  });
  return *of;
}

}  // namespace

// --- Tensors --------------------------------------------------------------------------------------

Tensor batched(Tensor samples, uint64_t number) {
  Tensor t = over(Ref<Storage>::share(samples->storage), samples.dtype(), samples.sizes().subspan(1),
                  samples.strides().subspan(1), samples.offset());
  t->set(TensorImpl::kContiguous, false);
  t->flags |= TensorImpl::kBatched | (samples->flags & TensorImpl::kInference);
  if (samples.requires_grad())
    if (BatchLevel* level = open_batch_level(number)) level->records.store(true, std::memory_order_relaxed);
  // As a node would that saved them: a write through the batched tensor leaves them as they were, with their
  // history.
  samples->storage->mark(Storage::kSaved);
  AutogradMeta& meta = make_meta(t.get());
  meta.samples = std::move(samples);
  meta.batch_level = number;
  return t;
}

Tensor unbatched(const Tensor& t, const BatchLevel& level) {
  if (is_batched(t)) {
    if (batch_level_of(t) == level.number) return samples_of(t);
    level_of(t, "vmap");
  }
  Dims sizes(t.sizes());
  sizes.insert(sizes.begin(), level.size);
  return call<Expand>(t, sizes.span());
}

bool are_of_one_batch(const Tensor& a, const Tensor& b) {
  return is_batched(a) == is_batched(b) && (!is_batched(a) || batch_level_of(a) == batch_level_of(b));
}
void share_samples(const Tensor& t, const Tensor& from) {
  if (is_batched(t)) meta_of(t)->samples = Tensor(samples_of(from));
}

Tensor of_each_sample(const Tensor& t, const Node& node) {
  const BatchLevel* level = thread_state.batch_level;
  if (node.sequence == Node::kFirst) {
    const TensorImpl* leaf = static_cast<const LeafNode&>(node).leaf;
    level = leaf->is(TensorImpl::kBatched)
                ? open_batch_level(leaf->meta.load(std::memory_order_acquire)->batch_level)
                : nullptr;
  }
  while (level && node.sequence < level->first_node) level = level->outer;
  if (!level || level->size < 0 || (is_batched(t) && batch_level_of(t) >= level->number)) return t;
  return batched(unbatched(t, *level), level->number);
}

void refuse_values(const Tensor& t, Asked what, const char* op) {
  const BatchLevel& level = level_of(t, op);
  const std::string found = text(" ", op, " was asked of a tensor of shape ", to_string(t.sizes()),
                                 " that stands for ", level.size, " samples.");
  switch (what) {
    case Asked::Item:
      throw PerSample(
          level.number, op,
          "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
          ".item() on a Tensor, please try to rewrite what you're doing with other operations." +
              found);
    case Asked::Truth:
      throw PerSample(level.number, op,
                      "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
                      "flow. We don't support that yet." +
                          found +
                          " Choose elementwise, by where(), or call vmap() with strict=False, which goes on "
                          "sample by sample.");
    case Asked::Memory:
      throw PerSample(level.number, op,
                      "vmap: the memory of a Tensor that is mapped over holds all samples, and cannot be "
                      "given away as that of one." +
                          found);
    case Asked::Shape:
      break;
  }
  throw PerSample(
      level.number, op,
      text(
          "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over ",
          op, ".", found));
}

void refuse_memory_of_batch(const Tensor& t, const char* what) { refuse_values(t, Asked::Memory, what); }
void refuse_value_of_batch(const Tensor& t, const char* by) {
  const bool truth = std::string_view(by) == "bool";
  refuse_values(t, truth ? Asked::Truth : Asked::Item, truth ? by : "item");
}

void refuse_gradient_per_sample(const Tensor& t, const Tensor& gradient) {
  if (!is_batched(gradient) || is_batched(t) || t->storage->made_inside(batch_level_of(gradient))) return;
  fail("vmap: backward() would add a gradient for each sample to the .grad of a tensor of shape ", t.sizes(),
       " that is the same for all samples; take the gradient by adjoint.func.grad or autograd.grad, and "
       "return it");
}

Tensor alias_of_batch(const Tensor& t) { return batched(samples_of(t), batch_level_of(t)); }
Tensor detached_batch(const Tensor& t) { return batched(detach(samples_of(t)), batch_level_of(t)); }

Tensor batch_for_argument(const Tensor& x) {
  const BatchLevel* level = thread_state.batch_level;
  if (!level || level->size < 0 || (is_batched(x) && batch_level_of(x) == level->number)) return {};
  return through_tangents(x, [&](const Tensor& t) { return batched(unbatched(t, *level), level->number); });
}

// --- Calls ----------------------------------------------------------------------------------------

namespace {

/// Samples that nodes hold, and that are about to get a history which may own them, are left to them: before
/// a write or a view, until the first view, from which on they keep their identity.
void part_samples_from_nodes(const Tensor& t) {
  AutogradMeta& meta = *meta_of(t);
  const Tensor& samples = meta.samples;
  if (!thread_state.grad || samples.unique() || samples->is(TensorImpl::kView) ||
      (samples.requires_grad() && !samples->grad_fn))
    return;
  Tensor fresh = alias(samples);
  if (samples->grad_fn) set_history(fresh, Ref<Node>::share(samples->grad_fn), samples->output_nr);
  meta.samples = std::move(fresh);
}

/// Let a tensor stand for its samples as a write gave them back: where the program has these, too (as one
/// does that looks on), the write may have made another tensor of them, with its history.
void renew_samples(const Tensor& t, const Tensor& written) {
  Tensor& samples = meta_of(t)->samples;
  if (written.defined() && written.get() != samples.get() && written->storage == samples->storage &&
      written->data == samples->data && same(written.sizes(), samples.sizes()) &&
      same(written.strides(), samples.strides()) && !written->is(TensorImpl::kView))
    samples = written;
}

/// Note that a tensor is written, for those levels that it was there before.
void note_write_from_inside(const Tensor& t) {
  for (BatchLevel* level = thread_state.batch_level; level; level = level->outer)
    if (!t->storage->made_inside(level->number)) level->wrote_outside.store(true, std::memory_order_relaxed);
}

/// While samples are computed: the tangents of levels inside of their batch have been made, of the batched
/// tensors.
class WithoutInner {
 public:
  explicit WithoutInner(const BatchLevel& level) {
    if (thread_state.dual_level && thread_state.dual_level->number > level.dual_outside)
      without_.emplace(level.dual_outside + 1);
  }

 private:
  std::optional<WithoutLevels> without_;
};

/// For its scope the innermost level is another.
class LevelOf {
 public:
  explicit LevelOf(BatchLevel* level) : before_(std::exchange(thread_state.batch_level, level)) {}
  ~LevelOf() { thread_state.batch_level = before_; }
  LevelOf(const LevelOf&) = delete;

 private:
  BatchLevel* before_;
};

/// Whether the types of its parameters say where dimensions are.
bool types_suffice(const Operator& op) {
  int tensors = 0;
  bool says = false;
  for (const ArgKind* kind : op.kinds) {
    tensors += kind->form == Form::Tensor || kind->form == Form::Tensors;
    if (kind->meaning == Meaning::MemoryInts) return false;
    using enum Meaning;
    for (const Meaning m : {Dim, NewDim, Dims, Permutation, Sizes, Repeats, IndexSpec})
      says |= kind->meaning == m;
  }
  return says && tensors <= 1;
}

[[noreturn]] void refuse_draws(const char* op);
void draw_batched(const Operator& op, std::span<const Value> arguments, Results& results);

}  // namespace

void compute_batched(const Operator& op, std::span<const Value> arguments, Results& results) {
  if (thread_state.batch_level)
    for (const ArgKind* kind : op.kinds)
      if (kind->form == Form::Generator) return draw_batched(op, arguments, results);
  const Tensor& of = innermost(op, arguments);
  BatchLevel& level = level_of(of, op.name);
  const WithoutInner handled(level);
  const Tensor* written = op.writes ? arguments[0].tensor : nullptr;
  if (written) {
    if (!is_batched(*written) || batch_level_of(*written) != level.number)
      become_batched(*written, level, op, arguments.data());
    note_write_from_inside(*written);
  }
  // The rule may take a view of the samples, which marks the memory of both as seen through views: nodes get
  // theirs before that.
  const Tensor& held = written ? *written : of;
  if ((written || op.view) && !samples_of(held)->storage->viewed()) {
    before_first_view(held);
    part_samples_from_nodes(held);
  }
  BatchedCall call(op, arguments, level);
  // Of no samples, what a rule makes of several dimensions cannot be told apart again: one that is made up
  // says the shapes.
  const bool folds = op.batch && op.batch != &batching::leading && op.batch != &batching::dynamic;
  if (!level.size && folds && !written && !op.view)
    batching::loop(call);
  else if (op.batch)
    op.batch(call);
  else if (types_suffice(op))
    batching::by_types(call);
  else if (op.composed)
    batching::composed(call);
  else
    batching::loop(call);
  if (written) {
    // The samples' door has counted the write.
    const Tensor& t = *written;
    renew_samples(t, call.results.one);
    if (t->is(TensorImpl::kView)) t->view_version.store(t.version(), std::memory_order_release);
    results.one = t;
    return;
  }
  results = std::move(call.results);
  if (call.finished) return;
  const auto wrap = [&](Tensor& t) {
    if (!t.defined()) return;
    // What came in and goes out as it is, stays the same tensor.
    const Tensor* kept = nullptr;
    each_tensor(op, arguments.data(), [&](const Tensor& given, int i) {
      if (!kept && op.tensors >> i & 1 && call.batched(given) && samples_of(given).get() == t.get())
        kept = &given;
    });
    if (kept) {
      t = *kept;
      return;
    }
    // What an operator gives in place of a result that was not asked for has no elements, nor the batch.
    if (t.dim() == 0 || (t.size(0) != level.size && t.numel() == 0)) return;
    t = batched(std::move(t), level.number);
  };
  wrap(results.one);
  for (Tensor& t : results.many) wrap(t);
}

namespace {

/// The same numbers for each sample.
void draw_same(BatchedCall& c) {
  size_t at = 0;
  while (c.op.kinds[at]->form != Form::Generator) ++at;
  runtime::Generator& generator = c.given[at].present ? *c.given[at].generator : runtime::default_generator();
  const auto state = generator.state();
  batching::loop(c, [&] { generator.set_state(state); });
}

/// Refuse as torch what a strict level with the same numbers for all cannot draw: from parameters of each
/// sample.
void refuse_same_of_samples(const BatchLevel& level, const char* op) {
  if (level.strict && level.randomness == Randomness::Same)
    fail("Vmap does not currently support same randomness with a batched tensor input: ", op,
         " was called with parameters that differ between samples");
}

/// Random numbers, for which a level says what they are to be: level by level, from the innermost out.
void draw_batched(const Operator& op, std::span<const Value> arguments, Results& results) {
  BatchLevel& level = *thread_state.batch_level;
  if (level.randomness == Randomness::Error) refuse_draws(op.name);
  const LevelOf outside(level.outer);
  BatchedCall c(op, arguments, level);
  const bool different = c.draws_differ();
  const bool batch = find_tensor(op, arguments.data(), [&](const Tensor& t) { return c.batched(t); });
  if (batch && !op.writes && op.batch != &batching::leading)
    refuse_same_of_samples(level, op.name);  // draws from values, not shapes
  if (op.writes) {
    const Tensor& self = *arguments[0].tensor;
    std::vector<Value> inner(arguments.begin(), arguments.end());
    Tensor target;
    if (different && !batch) {
      if (!self->storage->made_inside(level.number))
        fail(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like "
            "same randomness. ",
            name_of_write(op.name), " was called on a tensor of shape ", self.sizes(),
            " that was made outside of vmap()");
      become_batched(self, level, op);
    }
    if (different)
      target = samples_of(self);
    else
      target = batch ? empty(self.sizes(), self.dtype()) : self;
    inner[0].tensor = &target;
    Results drawn;
    op.boxed(inner.data(), drawn);
    if (different)
      renew_samples(self, drawn.one);
    else if (batch)
      renew_samples(self, call<Copy>(samples_of(self), target));
    if (self->is(TensorImpl::kView) && (different || batch))
      self->view_version.store(self.version(), std::memory_order_release);
    results.one = self;
    return;
  }
  if (!different && !batch) return op.boxed(arguments.data(), results);
  if (!different)
    draw_same(c);
  else if (op.batch)
    op.batch(c);
  else if (types_suffice(op))
    batching::by_types(c);
  else
    batching::loop(c);
  results = std::move(c.results);
  results.one = batched(std::move(results.one), level.number);
}

}  // namespace

namespace {
void refuse_draws(const char* op) {
  fail(
      "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
      "'different' randomness flags on vmap or perform the randomness operation out of vmap: ",
      op, " was called");
}

Tensor for_draws(const Tensor& t, const BatchLevel* level, const char* op) {
  if (!level) return t;
  const bool own = is_batched(t) && batch_level_of(t) == level->number;
  if (own) refuse_same_of_samples(*level, op);
  if (own) return batched(for_draws(samples_of(t), level->outer, op), level->number);
  const Tensor inner = for_draws(t, level->outer, op);
  return level->randomness == Randomness::Different ? batched(unbatched(inner, *level), level->number)
                                                    : inner;
}

}  // namespace
Tensor batch_for_draws(const Tensor& t, const char* op) {
  for (const BatchLevel* level = thread_state.batch_level; level; level = level->outer)
    if (level->randomness == Randomness::Error) refuse_draws(op);
  const Tensor drawn = for_draws(t, thread_state.batch_level, op);
  if (!t.requires_grad()) return drawn;
  // With the history that t has: itself, or the sum with zeros that are batched as the draws are to be.
  if (batching::all_samples(drawn).numel() == batching::all_samples(t).numel()) return t;
  return call<Add>(t, for_draws(zeros({}, t.dtype()), thread_state.batch_level, op));
}

Tensor compute_batched(const ElementwiseInfo& op, const Tensor* in, const double* parameters, DType type) {
  const Tensor* of = nullptr;
  int64_t rank = 0;
  bool mixed = false, scalars = false;
  for (int i = 0; i < op.arity; ++i) {
    if (is_batched(in[i]) && (!of || batch_level_of(in[i]) > batch_level_of(*of))) of = &in[i];
    rank = std::max(rank, in[i].dim());
    if (i == op.condition || in[i].is_wrapped()) continue;
    mixed |= in[i].dtype() != type;
    scalars |= in[i].dim() == 0;
  }
  const BatchLevel& level = level_of(*of, op.name);
  const WithoutInner handled(level);
  const uint64_t number = level.number;
  // What refuses a tensor with dimensions as its value, masked_fill(), is where() for samples that have a
  // value each: of its own type. Another may overflow, and they are tried one after the other.
  bool values = false, fits = true;
  for (int i = 1; op.parameters == 0 && i < op.arity; ++i) {
    if (!op.check || !op.keeps_type || in[i].dim() != 0 || !is_batched(in[i]) ||
        batch_level_of(in[i]) != number)
      continue;
    values = true;
    fits &= op.condition == 1 && in[i].dtype() == type;
  }
  if (values && !fits) {
    std::vector<Value> boxed(op.row->kinds.size());
    for (int i = 0; i < op.arity; ++i) op.row->kinds[i]->box(&in[i], boxed[i]);
    for (int k = 0; k < op.parameters; ++k)
      op.row->kinds[op.arity + k]->box(&parameters[k], boxed[op.arity + k]);
    BatchedCall call(*op.row, boxed, level);
    batching::loop(call);
    return batched(call.results.one, number);
  }
  Tensor inner[kMostInputs];
  for (int i = 0; i < op.arity; ++i) {
    const bool here = is_batched(in[i]) && batch_level_of(in[i]) == number;
    inner[i] = here ? with_ones(samples_of(in[i]), rank - in[i].dim()) : in[i];
    // Without dimensions it is weak in promotion, which its samples side by side are not.
    if (mixed && scalars && i != op.condition && !op.keeps_type && in[i].dim() == 0 && !in[i].is_wrapped() &&
        in[i].dtype() != type)
      inner[i] = call<To>(inner[i], type);
  }
  const Tensor result =
      values ? call<Where>(inner[1], inner[2], inner[0]) : call_elementwise(op, inner, parameters);
  for (int i = 0; i < op.arity; ++i)
    if (is_batched(in[i]) && samples_of(in[i]).get() == result.get()) return in[i];
  return batched(result, number);
}

}  // namespace adjoint
