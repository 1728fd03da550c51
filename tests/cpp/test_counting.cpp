// An interpreter of a program's own: it counts the calls of each operator and the elements that they make,
// and has each done as it was asked for. What a backward pass calls it sees, too.
#include <map>
#include <string>

#include "adjoint.h"
#include "check.h"
#include "dispatch/forms.h"
#include "transforms/interpreter.h"

using namespace adjoint;

namespace {

struct Counting final : Interpreter {
  struct Counts {
    int calls = 0;
    int64_t elements = 0;
  };
  std::map<std::string, Counts> counts;

  void call(const Call& call, Results& results) override {
    perform(call, results);
    Counts& c = counts[call.op.name];
    ++c.calls;
    for (const Tensor& t : results.all()) c.elements += t.defined() ? t.numel() : 0;
  }
  Ref<Interpreter> for_thread() const override { return Ref<Interpreter>::steal(new Counting); }
};

}  // namespace

int main() {
  const int64_t sizes[] = {3, 4};
  const Tensor x = zeros(sizes, DType::Float32);
  set_requires_grad(x, true);
  auto* const counting = new Counting;
  const auto held = Ref<Interpreter>::steal(counting);
  push(held);
  const Tensor y = call<Sum>(call<Sin>(x), OptionalDims(), false, OptionalType());
  CHECK(counting->counts["sin"].calls == 1 && counting->counts["sin"].elements == 12);
  CHECK(counting->counts["sum"].calls == 1 && counting->counts["sum"].elements == 1);
  const Tensor g = grad(y, {&x, 1}, {})[0];
  CHECK(counting->counts["expand"].calls == 1 && counting->counts["expand"].elements == 12);
  CHECK(counting->counts["cos"].calls == 1 && g.numel() == 12);
  CHECK(pop(counting) && !pop(counting));
  call<Sin>(x);
  CHECK(counting->counts["sin"].calls == 1);
  return check::result();
}
