// What a call may change of tensors, kept to be compared or put back: what made them, their memory, their
// versions, and whether they require gradients. Start reading at `State`.
#include <cstring>
#include <memory>
#include <unordered_set>

#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/caster.h"
#include "bind/replay.h"
#include "for_size.h"
#include "tensor/sparse.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// Of tensors, the nodes that made them, and the flags that programs set, as they are when this is made.
class Histories {
 public:
  Histories() = default;
  explicit Histories(nb::list tensors) {
    all_.reserve(nb::len(tensors));
    for (nb::handle o : tensors) add(o);
  }
  void add(nb::handle o) { all_.push_back(of(o)); }
  /// Those of which only the flags are others now, if any are, and those that have another history.
  nb::tuple differences() const {
    nb::list switched, rewritten;
    for (size_t k = 0; k < all_.size(); ++k) {
      const History& was = all_[k];
      if (!was.tensor.is_valid()) continue;
      const History now = of(was.tensor);
      if (!now.same(was))
        rewritten.append(k);
      else if (now.requires_grad != was.requires_grad || now.retains != was.retains)
        switched.append(k);
    }
    return nb::make_tuple(switched, rewritten);
  }
  bool retained(size_t k) const { return all_.at(k).retains; }
  void put_back() const {
    for (const History& was : all_) {
      if (!was.tensor.is_valid() || of(was.tensor).same(was)) continue;
      const Tensor& t = unwrap(was.tensor.ptr());
      if (was.node)
        set_history(t, was.node, was.number);
      else
        forget_history(t);
    }
  }
  /// A tensor over the same memory with the history that was there; none leaves it a leaf.
  Tensor as_it_was(size_t k) const {
    const History& was = all_.at(k);
    Tensor then = alias(unwrap(was.tensor.ptr()));
    if (was.node) set_history(then, was.node, was.number);
    return then;
  }

 private:
  struct History {
    nb::object tensor;
    Ref<Node> node;
    uint32_t number = 0;
    bool requires_grad = false, retains = false;
    bool same(const History& o) const { return node.get() == o.node.get() && (!node || number == o.number); }
  };
  static History of(nb::handle o) {
    if (!is_tensor(o.ptr())) return {};
    const Tensor& t = unwrap(o.ptr());
    History h{nb::borrow(o), {}, 0, t.requires_grad(), t->is(TensorImpl::kRetainsGrad)};
    try {
      if (Node* const made = history(t)) h.node = Ref<Node>::share(made), h.number = t->output_nr;
    } catch (const Error&) {  // of a view that has none
    }
    return h;
  }
  std::vector<History> all_;
};

/// The memory under some tensors, each once, as it is when this is made. What does not lie with the processor
/// as it is, Python keeps: `others`.
class State {
 public:
  explicit State(nb::list tensors) {
    std::unordered_set<const char*> met;
    for (nb::handle o : tensors) {
      if (!is_tensor(o.ptr())) continue;
      const Tensor& t = unwrap(o.ptr());
      // Who wrote to a tensor in a graph gave it another history, and its views theirs when they were asked.
      if (t->is(TensorImpl::kView))
        views_.push_back({nb::borrow(o), t->grad_fn ? Ref<Node>::share(t->grad_fn) : Ref<Node>(),
                          t->output_nr, t->view_version.load(std::memory_order_acquire)});
      else if (Py_TYPE(o.ptr()) == tensor_type)
        histories_.add(o);
      // Tensors on one memory may count writes apart (`x.data`).
      if (!t->is(TensorImpl::kInference))
        marks_.push_back(
            {nb::borrow(o), version_of_both(t), t.requires_grad(), !t->is(TensorImpl::kView) && is_leaf(t)});
      const Storage* const s = owner_of_bytes(t->storage);
      if (!met.insert(s->data).second) continue;
      Memory m{nb::borrow(o), s->nbytes, {}};
      if (s->device == Device::CPU && !is_sparse(t)) {
        m.bytes = std::make_unique_for_overwrite<char[]>(s->nbytes);
        if (s->nbytes) std::memcpy(m.bytes.get(), s->data, s->nbytes);
      }
      memory_.push_back(std::move(m));
    }
  }
  State(const State&) = delete;
  nb::list others() const {
    nb::list all;
    for (const Memory& m : memory_)
      if (!m.bytes) all.append(m.tensor);
    return all;
  }
  void put_back() const {
    for (const Memory& m : memory_) {
      const Tensor& t = unwrap(m.tensor.ptr());
      if (m.bytes && !m.is_now()) std::memcpy(owner_of_bytes(t->storage)->data, m.bytes.get(), m.count);
    }
    // Where `data` was replaced, writes are counted in two places: see version_of_both.
    for (const Marks& m : marks_) {
      Storage* const s = unwrap(m.tensor.ptr())->storage;
      for (Storage* counter : {s, counter_of(*s)})
        if (counter) counter->version.store(m.version, std::memory_order_release);
    }
    histories_.put_back();
    for (const View& v : views_) {
      const Tensor& t = unwrap(v.tensor.ptr());
      if (t->grad_fn != v.node.get()) {
        if (v.node)
          set_history(t, v.node, v.number);
        else
          forget_history(t);
      }
      t->view_version.store(v.recorded, std::memory_order_release);
    }
    for (const Marks& m : marks_)
      if (const Tensor& t = unwrap(m.tensor.ptr()); m.leaf && t.requires_grad() != m.required)
        set_requires_grad(t, m.required);
  }
  /// The first tensor that differs in a later state of the same ones, and its versions where it is these;
  /// None where none does.
  nb::object difference(const State& after) const {
    for (size_t k = 0; k < memory_.size(); ++k) {
      const Memory &a = memory_[k], &b = after.memory_.at(k);
      if (a.bytes && (a.count != b.count || std::memcmp(a.bytes.get(), b.bytes.get(), a.count) != 0))
        return nb::make_tuple(a.tensor, nb::none());
    }
    for (size_t k = 0; k < marks_.size(); ++k)
      if (const uint32_t now = marks_[k].version, then = after.marks_.at(k).version; now != then)
        return nb::make_tuple(marks_[k].tensor, nb::make_tuple(now, then));
    return nb::none();
  }

 private:
  struct Memory {
    nb::object tensor;
    size_t count;
    std::unique_ptr<char[]> bytes;
    bool is_now() const {
      const Storage* const s = owner_of_bytes(unwrap(tensor.ptr())->storage);
      if (s->nbytes != count) fail("jit: a tensor that was kept has other memory now");
      return !count || std::memcmp(s->data, bytes.get(), count) == 0;
    }
  };
  std::vector<Memory> memory_;
  struct Marks {
    nb::object tensor;
    uint32_t version;
    bool required, leaf;
  };
  std::vector<Marks> marks_;
  /// Views as they stand, of which the base may know better: see `refresh_view`.
  struct View {
    nb::object tensor;
    Ref<Node> node;
    uint32_t number, recorded;
  };
  std::vector<View> views_;
  Histories histories_;
};

/// How much memory lies under these tensors; -1 where one of them has a history.
int64_t bytes_reached(nb::list tensors) {
  std::unordered_set<const Storage*> met;
  size_t sum = 0;
  for (nb::handle o : tensors) {
    if (!is_tensor(o.ptr())) continue;
    const Tensor& t = unwrap(o.ptr());
    if (t->grad_fn) return -1;
    const Storage* const s = owner_of_bytes(t->storage);
    if (met.insert(s).second) sum += s->nbytes;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace

void bind_replay_state(nb::module_& m) {
  nb::class_<Histories>(m, "_Histories", "What made some tensors, before a call.")
      .def(nb::init<nb::list>())
      .def("differences", &Histories::differences)
      .def("retained", &Histories::retained)
      .def("as_it_was", &Histories::as_it_was);
  nb::class_<State>(m, "_State", "The memory under some tensors: see _replay/_memory.py.")
      .def(nb::init<nb::list>())
      .def("others", &State::others)
      .def("put_back", &State::put_back)
      .def("difference", &State::difference);
  m.def("_bytes_reached", &bytes_reached);
}

}  // namespace adjoint::bind
