// Calls on batches: what rules are made of (dispatch/batched_call.h), and those that need no more than the
// types of parameters. Start reading at `by_types`.
#include <deque>
#include <mutex>

#include "dispatch/batched_call.h"
#include "for_size.h"
#include "ops/indexing.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "transforms/batching.h"

namespace adjoint {

BatchedCall::BatchedCall(const Operator& o, std::span<const Value> g, const BatchLevel& l)
    : op(o), given(g), level(l), size(l.size) {}

Tensor with_ones(const Tensor& samples, int64_t count) {
  if (count <= 0) return samples;
  Dims sizes(samples.sizes());
  while (count-- > 0) sizes.insert(sizes.begin() + 1, 1);
  return call<View>(samples, sizes.span());
}

bool BatchedCall::batched(const Tensor& t) const {
  return is_batched(t) && batch_level_of(t) == level.number;
}
Tensor BatchedCall::samples(const Tensor& t) const { return batched(t) ? samples_of(t) : t; }
bool BatchedCall::draws_differ() const { return level.randomness == Randomness::Different; }
Dims BatchedCall::with_batch(IntList sizes) const {
  Dims all(sizes);
  all.insert(all.begin(), size);
  return all;
}

Tensor BatchedCall::in_front(const Tensor& t) const {
  if (batched(t)) return samples_of(t);
  return t.defined() ? unbatched(t, level) : t;
}

Tensor BatchedCall::with_rank(const Tensor& t, int64_t rank) const {
  return batched(t) ? with_ones(samples_of(t), rank - t.dim()) : t;
}

Tensor BatchedCall::bare(const Tensor& t) const {
  return t.defined() && batched(t) ? adjoint::batched(samples_of(t), level.number) : t;
}

const Tensor& BatchedCall::some_batched() const {
  if (const Tensor* t = find_tensor(op, given.data(), [&](const Tensor& x) { return batched(x); })) return *t;
  fail(op.name, "(): no batched tensor");
}

static const Tensor left_out;
BatchedTensor::BatchedTensor(const BatchedCall& c, const Value& given)
    : BatchedTensor(c, given.present ? *given.tensor : left_out) {}

namespace batching {

Tensor all_samples(Tensor t) {
  while (is_batched(t)) t = Tensor(samples_of(t));
  return t;
}
bool per_sample(const Tensor& t) { return t.defined() && is_batched(t); }
void needs_values(const Tensor& t, const char* op) { refuse_values(t, Asked::Shape, op); }

static Tensor moved(const Tensor& t, int64_t from, int64_t to) {
  return from == to ? t : call<MoveDim>(t, IntList(&from, 1), IntList(&to, 1));
}
Tensor joined(const Tensor& samples, int64_t dim) {
  return call<Flatten>(moved(samples, 0, dim), dim, dim + 1);
}
Tensor parted(const BatchedCall& c, const Tensor& t, int64_t dim) {
  const Dims parts{c.size, c.size ? t.size(dim) / c.size : 0};
  return moved(call<Unflatten>(t, dim, parts.span()), dim, 0);
}

namespace {

bool is(const ArgKind* kind, Meaning meaning) { return kind->meaning == meaning; }
bool names_dimensions(const ArgKind* kind) {
  return is(kind, Meaning::Dim) || is(kind, Meaning::Dims) || is(kind, Meaning::NewDim) ||
         is(kind, Meaning::Permutation);
}

/// Arguments that are being made, and their memory.
struct Made {
  std::vector<Value> values;
  std::deque<Tensor> tensors;
  std::deque<Tensors> lists;
  std::deque<Dims> numbers;

  explicit Made(std::span<const Value> given) : values(given.begin(), given.end()) {}
  void set(size_t i, Tensor t) { values[i].tensor = &tensors.emplace_back(std::move(t)); }
  void set(size_t i, Tensors ts) {
    const Tensors& kept = lists.emplace_back(std::move(ts));
    values[i].list = {kept.data(), kept.size()};
  }
  void set(size_t i, Dims ints) {
    const Dims& kept = numbers.emplace_back(std::move(ints));
    values[i].present = true;
    values[i].list = {kept.data(), kept.size()};
  }
};

/// What joining takes no notice of, whatever dimensions the others have.
bool nothing(const Tensor& t) { return t.dim() == 1 && t.numel() == 0; }

/// The first tensor of the call.
const Tensor& first_tensor(const BatchedCall& c) {
  const Tensor* t =
      find_tensor(c.op, c.given.data(), [&](const Tensor& x) { return !c.op.lists || !nothing(x); });
  return t ? *t : c.some_batched();
}

int count_tensors(const Operator& op) { return std::popcount(op.tensors) + 2 * std::popcount(op.lists); }

/// The call for sample number i.
void call_for_sample(const BatchedCall& c, int64_t i, Results& r) {
  Made made(c.given);
  const auto pick = [&](const Tensor& t) {
    if (!t.defined() || !c.batched(t)) return t;
    if (c.size) return call<Select>(samples_of(t), 0, i);
    // An empty batch has a shape, and a history where its samples have one.
    const int64_t batch[] = {0};
    return is_integral(t.dtype())
               ? zeros(t.sizes(), t.dtype())
               : call<Sum>(samples_of(t), OptionalDims(IntList(batch)), false, OptionalType());
  };
  for (size_t k = 0; k < c.given.size(); ++k) {
    if (!c.given[k].present) continue;
    if (c.op.kinds[k]->form == Form::Tensor) made.set(k, pick(*c.given[k].tensor));
    if (c.op.kinds[k]->form == Form::Tensors) {
      Tensors list;
      for (const Tensor& t : c.given[k].tensors()) list.push_back(pick(t));
      made.set(k, std::move(list));
    }
  }
  c.op.boxed(made.values.data(), r);
}

/// Of tensors without dimensions, which operators take as if they had one.
void of_scalars(BatchedCall& c) {
  if (count_tensors(c.op) != 1) return loop(c);
  Results shapes;
  {
    GradMode off(false);
    call_for_sample(c, 0, shapes);
  }
  Made made(c.given);
  for (size_t i = 0; i < c.given.size(); ++i) {
    const ArgKind* kind = c.op.kinds[i];
    if (kind->form == Form::Tensor && c.given[i].present)
      made.set(i, with_ones(c.samples(*c.given[i].tensor), 1));
    else if (is(kind, Meaning::Dims))
      made.set(i, Dims{1});
    else if (is(kind, Meaning::Dim))
      made.values[i].present = true, made.values[i].i = 1;
    else if (names_dimensions(kind) || kind->form == Form::Ints)
      return loop(c);
  }
  c.op.boxed(made.values.data(), c.results);
  const auto fit = [&](Tensor& t, const Tensor& like) {
    Dims sizes(like.sizes());
    sizes.insert(sizes.begin(), c.size);
    if (!same(t.sizes(), sizes.span())) t = call<Reshape>(t, sizes.span());
  };
  if (c.results.one.defined()) fit(c.results.one, shapes.one);
  for (size_t i = 0; i < c.results.many.size(); ++i) fit(c.results.many[i], shapes.many[i]);
}

/// Over the tensor as if it were flat: argmax() without a dimension.
void of_flat(BatchedCall& c, size_t dim) {
  Made made(c.given);
  const Tensor& self = first_tensor(c);
  const Dims flat{c.size, self.numel()};
  made.set(static_cast<size_t>(std::countr_zero(c.op.tensors)), call<Reshape>(c.samples(self), flat.span()));
  made.values[dim].present = true;
  made.values[dim].i = 1;
  c.op.boxed(made.values.data(), c.results);
  if (c.results.one.dim() == 1) return;
  Dims kept(self.sizes().size() + 1, 1);
  kept[0] = c.size;
  c.results.one = call<Reshape>(c.results.one, kept.span());
}

}  // namespace

void by_types(BatchedCall& c) {
  const int64_t rank = count_tensors(c.op) ? first_tensor(c).dim() : 0;
  const bool alone = count_tensors(c.op) == 1;
  Made made(c.given);
  int64_t wider = 0;  // dimensions that the result has in front of the first tensor's
  for (size_t i = 0; i < c.given.size(); ++i) {
    const ArgKind* kind = c.op.kinds[i];
    const Value& v = c.given[i];
    if (is(kind, Meaning::Dim)) {
      if (!v.present) return of_flat(c, i);
      if (rank == 0) return of_scalars(c);
      made.values[i].i = wrap_dim(v.i, rank, c.op.name) + 1;
    } else if (is(kind, Meaning::NewDim)) {
      made.values[i].i = wrap_dim(v.i, rank + 1, c.op.name) + 1;
    } else if (is(kind, Meaning::Dims)) {
      if (rank == 0) return of_scalars(c);
      Dims dims;
      if (v.present) {
        if (v.ints().empty() && !c.op.view && !kind->optional)
          return loop(c);  // all or none: that is the operator's to say
        for (int64_t d : v.ints()) dims.push_back(wrap_dim(d, rank, c.op.name) + 1);
      }
      if (!v.present || (dims.empty() && !c.op.view))
        for (int64_t d = 1; d <= rank; ++d) dims.push_back(d);
      made.set(i, std::move(dims));
    } else if (is(kind, Meaning::Permutation)) {
      if (static_cast<int64_t>(v.ints().size()) != rank)
        fail(c.op.name,
             "(sparse_coo): number of dimensions in the tensor input does not match the length of the "
             "desired ordering of dimensions i.e. input.dim() = ",
             rank, " is not equal to len(dims) = ", v.ints().size());
      Dims dims{0};
      for (int64_t d : v.ints()) dims.push_back(wrap_dim(d, rank, c.op.name) + 1);
      made.set(i, std::move(dims));
    } else if (is(kind, Meaning::Sizes) || is(kind, Meaning::Repeats)) {
      const bool repeats = is(kind, Meaning::Repeats);
      Dims sizes(v.ints());
      if (alone && (repeats || c.op.view))
        wider = std::max<int64_t>(0, static_cast<int64_t>(sizes.size()) - rank);
      if (repeats && static_cast<int64_t>(sizes.size()) < rank) {
        while (static_cast<int64_t>(sizes.size()) < rank) sizes.insert(sizes.begin(), 1);
      }
      if (!c.size && alone && std::ranges::find(sizes, -1) != sizes.end()) {
        // What is left to the number of elements, a sample tells.
        Results sample;
        call_for_sample(c, 0, sample);
        sizes = Dims(sample.one.sizes());
      }
      sizes.insert(sizes.begin(), repeats ? 1 : c.size);
      made.set(i, std::move(sizes));
    } else if (is(kind, Meaning::IndexSpec)) {
      Dims spec{static_cast<int64_t>(Pick::Slice), 0, 1, c.size};
      for (int64_t s : v.ints()) spec.push_back(s);
      made.set(i, std::move(spec));
    }
  }
  for (size_t i = 0; i < c.given.size(); ++i) {
    if (!c.given[i].present) continue;
    if (c.op.kinds[i]->form == Form::Tensor) made.set(i, with_ones(c.in_front(*c.given[i].tensor), wider));
    if (c.op.kinds[i]->form != Form::Tensors) continue;
    Tensors list;
    for (const Tensor& t : c.given[i].tensors())
      if (rank == 1 || !t.defined() || !nothing(t)) list.push_back(c.in_front(t));
    made.set(i, std::move(list));
  }
  c.op.boxed(made.values.data(), c.results);
}

void draws(BatchedCall& c) { c.draws_differ() ? by_types(c) : loop(c); }

void leading(BatchedCall& c) { by_types(c); }
void from_values(BatchedCall& c) { by_types(c); }

void loop(BatchedCall& c, const std::function<void()>& prepare) {
  note_batching_loop(c.op.name);
  if (c.op.view)
    fail<NotImplemented>("vmap: the view that ", c.op.name,
                         "() makes cannot be put together from views of the samples");
  std::vector<Tensors> columns;
  for (int64_t i = 0; i < std::max<int64_t>(c.size, 1); ++i) {
    Results r;
    if (prepare) prepare();
    call_for_sample(c, i, r);
    if (r.kind == Results::Kind::One) r.many = {std::move(r.one)};
    c.results.kind = r.kind;
    if (i == 0) columns.resize(r.many.size());
    for (size_t k = 0; k < columns.size(); ++k) {
      if (k >= r.many.size() || (i && r.many[k].defined() && !same(r.many[k].sizes(), columns[k][0].sizes())))
        refuse_values(c.some_batched(), Asked::Shape, c.op.name);
      columns[k].push_back(std::move(r.many[k]));
    }
  }
  if (c.op.writes) return;
  for (Tensors& column : columns) {
    Tensor all = column[0].defined() ? call<Stack>(TensorList(column), 0) : Tensor();
    if (!c.size && all.defined()) all = call<Narrow>(all, 0, 0, 0);
    if (c.results.kind == Results::Kind::One)
      c.results.one = std::move(all);
    else
      c.results.many.push_back(std::move(all));
  }
}

void composed(BatchedCall& c) {
  Made made(c.given);
  each_tensor(c.op, c.given.data(), [&](const Tensor& t, int i) {
    if (c.op.tensors >> i & 1) made.set(static_cast<size_t>(i), c.bare(t));
  });
  c.op.composed(c.op, made.values.data(), c.results);
  c.finished = true;
}

void dynamic(BatchedCall& c) {
  if (c.level.strict) refuse_values(c.some_batched(), Asked::Shape, c.op.name);
  loop(c);
}

}  // namespace batching

// --- What was done by loops -----------------------------------------------------------------------

namespace {
std::mutex loops_mutex;
std::map<std::string, uint64_t> loops;
}  // namespace

void note_batching_loop(const char* op) {
  std::lock_guard lock(loops_mutex);
  ++loops[op];
}
std::map<std::string, uint64_t> batching_loops() {
  std::lock_guard lock(loops_mutex);
  return loops;
}
void forget_batching_loops() {
  std::lock_guard lock(loops_mutex);
  loops.clear();
}

}  // namespace adjoint
