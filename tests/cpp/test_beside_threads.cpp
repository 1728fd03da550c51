// What one thread does to what another works with: memory that is given up, and who looks on. ThreadSanitizer
// runs it. Start at `main`.
#include "check.h"
#include "tensor/memory_in_use.h"
#include "threads.h"
#include "transforms/autocast.h"
#include "transforms/thread_modes.h"

using namespace adjoint;

namespace {

/// A tensor is given other memory while threads read what it had: a lock stands for Python's.
void memory_stays_while_it_is_read() {
  const Tensor x = filled_with(dims(5000), 0);
  std::mutex python;
  std::atomic<int> readers{3};
  in_threads(4, [&](int t) {
    if (t == 3) {
      for (int round = 1; readers.load(); ++round) {
        const Tensor next = filled_with(dims(5000), round), other = filled_with(dims(5000), -1);
        std::lock_guard held(python);
        x->replace_storage(Ref<Storage>::share(next->storage), next->data, next.dtype(), next.sizes(),
                           nullptr);
      }
      return;
    }
    for (int round = 0; round < 300; ++round) {
      const MemoryInUse memory(true);
      const double* p;
      {
        std::lock_guard held(python);
        p = x.data<double>();
      }
      bool same = p[0] >= 0;
      for (int i = 0; i < 5000; ++i) same &= p[i] == p[0];
      CHECK(same);
      if (round % 2) MemoryInUse::pause();
    }
    --readers;
  });
  CHECK(!memory_waits.load());
}

/// Nothing waits for a scope that began after memory was given up, or that came to a pause.
void memory_goes_when_it_is_out_of_use() {
  const auto used = [] { return runtime::memory_statistics().allocated_bytes; };
  Tensor x = filled_with(dims(1 << 16), 1);
  const Tensor none = filled_with(dims(1), 1);
  const auto give = [&] {
    x->replace_storage(Ref<Storage>::share(none->storage), none->data, none.dtype(), none.sizes(), nullptr);
  };
  const size_t before = used();
  {
    const MemoryInUse memory(true);
    give();
    CHECK(used() == before && memory_waits.load());
    MemoryInUse::pause();
    CHECK(used() < before && !memory_waits.load());
  }
  x = filled_with(dims(1 << 16), 1);
  {
    const MemoryInUse memory(true);
    give();
    CHECK(used() == before);
  }
  CHECK(used() < before);
}

/// Each thread of a pass has an autocast of its own, set as the caller's was: hooks that set it feel no
/// others.
void autocast_of_each_thread() {
  runtime::set_num_threads(4);
  for (int round = 0; round < 15; ++round) {
    set_autocast(true);
    Autocast* const mine = autocast_here();
    mine->settings = {false, true, DType::BFloat16, 0};
    const Tensor x = parameter(filled_with(dims(33), 0.7));
    Tensor sum = total(x);
    std::atomic<int> ran{0};
    for (int branch = 0; branch < 8; ++branch) {
      Tensor t = call<Square>(call<Mul>(x, 1.0 + branch));
      register_hook(t, [&](const Tensor&) -> Tensor {
        Autocast* const here = autocast_here();
        const AutocastSettings before = here->settings;
        CHECK(!before.enabled);
        here->settings = {true, true, DType::BFloat16, current_pass()};
        CHECK(here->active());
        here->settings = before;
        ++ran;
        return {};
      });
      sum = call<Add>(sum, total(t));
    }
    thread_state.parallel_backward = true;
    backward(sum);
    thread_state.parallel_backward = false;
    CHECK(ran == 8 && autocast_here() == mine);
    set_autocast(false);
    CHECK(!autocast_here() && !thread_state.interpreter && !thread_state.watched);
  }
  runtime::set_num_threads(1);
}

/// One that is passed by just then is taken along too, and goes with the thread that has it.
void modes_of_a_call() {
  set_autocast(true);
  const Past past({});
  const ThreadModes modes;
  in_threads(2, [&](int) {
    const ThreadModes::Here here(modes);
    CHECK(autocast_here() && !thread_state.interpreter);
    set_autocast(false);
  });
  set_autocast(false);
  CHECK(!autocast_here());
}

}  // namespace

int main() {
  runtime::set_num_threads(1);
  memory_stays_while_it_is_read();
  memory_goes_when_it_is_out_of_use();
  autocast_of_each_thread();
  modes_of_a_call();
  return check::result();
}
