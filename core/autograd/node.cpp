#include "autograd/node.h"

#include <cctype>

#include "autograd/engine.h"
#include "autograd/saved.h"
#include "autograd/views.h"
#include "runtime/allocator.h"

namespace adjoint {

std::atomic<bool> recording_lines{false};
std::string (*where_now)() = nullptr;

void ResultInfo::describe_many(const Tensor& t) {
  if (ndim_ > 4) delete[] heap_;
  dtype_ = t.dtype();
  device_ = device_of(t);
  ndim_ = static_cast<uint8_t>(t.dim());
  int64_t* to = ndim_ > 4 ? heap_ = new int64_t[ndim_] : inline_;
  const auto sizes = t.sizes();
  for (int i = 0; i < ndim_; ++i) to[i] = sizes[i];
}
ResultInfo::ResultInfo(ResultInfo&& o) noexcept { *this = std::move(o); }
ResultInfo& ResultInfo::operator=(ResultInfo&& o) noexcept {
  if (this == &o) return *this;
  if (ndim_ > 4) delete[] heap_;
  dtype_ = o.dtype_;
  device_ = o.device_;
  ndim_ = o.ndim_;
  any_type = o.any_type;
  std::memcpy(inline_, o.inline_, sizeof inline_);
  o.ndim_ = 0;
  return *this;
}

NodeExtras& Node::make_extras() {
  if (NodeExtras* e = extras()) return *e;
  auto* fresh = new NodeExtras;
  NodeExtras* expected = nullptr;
  if (!extras_.compare_exchange_strong(expected, fresh)) {
    delete fresh;
    return *expected;
  }
  return *fresh;
}

void* Node::operator new(size_t bytes) { return runtime::allocate(bytes); }
void Node::operator delete(void* p, size_t bytes) { runtime::deallocate(p, bytes); }

void Node::destroy(Node* node) noexcept {
  // Deleting a node drops its edges, which may delete more: a list of those to come replaces the recursion.
  struct Pending {
    bool running = false;
    std::vector<Node*> nodes;
  };
  static thread_local Pending* pending = nullptr;
  if (pending) {
    pending->nodes.push_back(node);
    return;
  }
  Pending here;
  pending = &here;
  delete node;
  while (!here.nodes.empty()) {
    Node* next = here.nodes.back();
    here.nodes.pop_back();
    delete next;
  }
  pending = nullptr;
}

std::string backward_name(const char* op) {
  if (*op == '=') return op + 1;
  std::string s;
  bool up = true;
  for (const char* c = op; *c; ++c) {
    const bool digit = std::isdigit(static_cast<unsigned char>(*c));
    if (*c == '.' && std::isdigit(static_cast<unsigned char>(c[1]))) return s + "Backward" + (c + 1);
    if (*c == '_' || *c == '.') {
      up = true;
      continue;
    }
    s += up ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c;
    up = digit;
  }
  return s + "Backward0";
}

void Node::refuse_released() const {
  fail(
      "Trying to backward through the graph a second time (or directly access saved tensors after they have "
      "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
      "autograd.grad(); they were saved by ",
      name(),
      ". Specify retain_graph=True if you need to backward through the graph a second time or if you need to "
      "access saved tensors after calling backward.");
}

void Node::note_line() {
  if (!where_now) return;
  NodeExtras& e = make_extras();
  e.trace = where_now();
  if (const Node* parent = current_node()) {
    e.induced_by = parent->name();
    e.induced_trace = parent->line();
  }
}
std::string Node::line() const {
  NodeExtras* e = extras();
  return e ? e->trace : std::string();
}

}  // namespace adjoint
