// The engine and the allocator in many threads at once: what ThreadSanitizer runs. Sums are of whole numbers,
// so that a lost update shows whatever the order. Start at `main`.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "check.h"
#include "threads.h"

using namespace adjoint;

namespace {

/// Each thread its own graph: they share nothing, and must not feel each other.
void independent_graphs() {
  in_threads(6, [](int t) {
    for (int round = 0; round < 40; ++round) {
      const Tensor x = parameter(filled_with(dims(17 + 400 * (round % 3)), t + 1));
      Tensor y = x;
      for (int i = 0; i < 20; ++i) y = call<Mul>(call<Square>(call<Sqrt>(y)), 1.0);
      backward(total(call<Mul>(y, x)));
      const Tensor g = gradient(x);
      CHECK(std::abs(g.data<double>()[3] - 2 * (t + 1)) < 1e-9);
    }
  });
}

/// One graph that is kept, by many threads, some of which differentiate what they get again.
void kept_graph() {
  const Tensor x = parameter(filled_with(dims(50), 2)), w = parameter(filled_with(dims(50), 3));
  const Tensor y = total(call<Mul>(call<Square>(call<Mul>(x, w)), x));  // x^3 w^2
  in_threads(8, [&](int t) {
    for (int round = 0; round < 30; ++round) {
      const Tensor leaves[] = {x, w};
      const Tensors g = grad(y, leaves, {.retain_graph = true, .create_graph = t % 2 == 1});
      CHECK(all_are(g[0], 3 * 4 * 9) && all_are(g[1], 2 * 8 * 3));
      // What is recorded from the kept graph leads back into it, and keeps it in turn.
      if (t % 2 == 1) CHECK(all_are(grad(total(g[0]), {&x, 1}, {.retain_graph = true})[0], 6 * 2 * 9));
    }
  });
}

/// One graph that is freed as it runs: one thread has it, the others are told so.
void consumed_graph() {
  for (int round = 0; round < 150; ++round) {
    const Tensor x = parameter(filled_with(dims(5), 2));
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = call<Square>(call<Sqrt>(op<Reshape>(y, dims(5, 1))));
    const Tensor z = total(call<Mul>(y, x));
    std::atomic<int> ran{0}, refused{0};
    in_threads(4, [&](int) {
      const Outcome o = outcome([&] { backward(z); });
      ran += o == Outcome::Ran;
      refused += o == Outcome::SecondTime;
    });
    CHECK(ran == 1 && refused == 3);
    CHECK(std::abs(gradient(x).data<double>()[0] - 20) < 1e-9);  // of the sum of x_i x_j
  }
}

/// Threads that keep the graph beside one that frees it, and one that looks at what is saved.
void kept_and_consumed() {
  for (int round = 0; round < 150; ++round) {
    const Tensor x = parameter(filled_with(dims(5), 3));
    const Tensor h = call<Square>(x), z = total(call<Mul>(h, x));
    std::atomic<int> failed{0}, freed{0};
    in_threads(4, [&](int t) {
      for (int i = 0; i < 4; ++i) {
        const Outcome o = outcome([&] {
          if (t == 3) {
            const ReadLock reading(*h->grad_fn, ReadLock::Look);
            for (const SavedValue& v : h->grad_fn->saved())
              CHECK(!v.tensor.defined() || all_are(v.tensor, 3));
          } else {
            const Tensor g = grad(z, {&x, 1}, {.retain_graph = t != 0})[0];
            CHECK(all_are(g, 27));
            freed += t == 0;
          }
        });
        failed += o == Outcome::Failed;
      }
    });
    CHECK(failed == 0 && freed <= 1);
    CHECK(freed == 0 || outcome([&] { backward(z); }) == Outcome::SecondTime);
  }
}

/// Ten threads add to the gradients of shared leaves; every update counts.
void shared_leaves() {
  constexpr int threads = 10, rounds = 100;
  const Tensor a = parameter(filled_with(dims(33), 2)), b = parameter(filled_with(dims(), 5)),
               c = parameter(filled_with(dims(3, 400), 1));
  std::atomic<int> hooked{0};
  register_post_accumulate_hook(b, [&](const Tensor&) { ++hooked; });
  in_threads(threads, [&](int t) {
    for (int round = 0; round < rounds; ++round) {
      const Tensor y = call<Mul>(call<Mul>(a, b), t + 1.0);
      backward(call<Add>(total(y), total(call<Mul>(c, op<Select>(a, 0, 0)))));
    }
  });
  const double each = rounds * threads * (threads + 1) / 2.0;  // the sum of t + 1
  const Tensor g = gradient(a);
  CHECK(g.data<double>()[0] == 5 * each + rounds * threads * 1200 && g.data<double>()[32] == 5 * each);
  CHECK(all_are(gradient(b), 33 * 2 * each));
  CHECK(all_are(gradient(c), 2.0 * rounds * threads));
  CHECK(hooked == rounds * threads);
}

/// The accumulator of a leaf comes and goes with the graphs that end in it.
void short_lived_graphs() {
  const Tensor x = parameter(filled_with(dims(3), 1));
  in_threads(6, [&](int t) {
    for (int round = 0; round < 300; ++round) {
      const Tensor y = call<Mul>(x, 2.0);
      if (round % 10 == t) backward(total(y));
    }
  });
  CHECK(all_are(gradient(x), 6 * 30 * 2));
}

/// Hooks are registered and removed, tensors that retain their gradient die, while others run the graph.
void hooks_meanwhile() {
  for (int round = 0; round < 20; ++round) {
    const Tensor x = parameter(filled_with(dims(3), 1));
    const Tensor h = call<Mul>(x, 2.0);
    Node* const node = h->grad_fn;
    const Tensor z = total(call<Square>(h));
    std::atomic<int> calls{0};
    in_threads(4, [&](int t) {
      for (int i = 0; i < 20; ++i) {
        if (t < 2) {
          CHECK(all_are(grad(z, {&x, 1}, {.retain_graph = true})[0], 8));
        } else if (t == 2) {
          for (const Tensor& on : {x, h})
            remove_hook(on, register_hook(on, [&](const Tensor&) {
                          ++calls;
                          return Tensor();
                        }));
        } else {
          Tensor also = alias(h);
          set_history(also, Ref<Node>::share(node), 0);
          retain_grad(also);
          const Tensor g = gradient(also);
          CHECK(!g.defined() || std::fmod(g.data<double>()[0], 4) == 0);
        }
      }
    });
  }
}

/// Tensors, views and graphs made in one thread and dropped in another; in the end nothing is in use.
void blocks_change_hands() {
  const auto before = runtime::memory_statistics();
  {
    constexpr int threads = 6, slots = 32;
    struct Slot {
      std::mutex mutex;
      Tensor tensor;
    };
    std::vector<Slot> board(slots);
    in_threads(threads, [&](int t) {
      uint64_t random = static_cast<uint64_t>(t) + 1;
      for (int i = 0; i < 600; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int64_t n = int64_t{1} << (random >> 33) % 15;  // 8 B to 128 KiB
        Tensor mine = parameter(filled_with(dims(n), t));
        if (i % 3 == 0) mine = call<Square>(call<Mul>(mine, 2.0));
        if (i % 5 == 0) mine = op<Select>(mine, 0, 0);
        Slot& slot = board[(random >> 20) % slots];
        {
          std::lock_guard lock(slot.mutex);
          std::swap(slot.tensor, mine);
        }
        if (mine.defined() && mine->grad_fn && mine.dim() == 0) backward(mine);
      }
    });
  }
  const auto after = runtime::memory_statistics();
  CHECK(after.allocated_bytes == before.allocated_bytes && after.allocation_count == before.allocation_count);
}

/// Loops on several threads inside passes on several threads.
void parallel_kernels() {
  runtime::set_num_threads(3);
  const Tensor x = parameter(filled_with(dims(300'000), 1));
  in_threads(3, [&](int) {
    for (int round = 0; round < 3; ++round) backward(total(call<Square>(call<Mul>(x, 2.0))));
  });
  CHECK(all_are(gradient(x), 9 * 8));
  runtime::set_num_threads(1);
}

/// Branches of one graph on several threads: the sums that one thread makes, and errors reach the caller.
void parallel_branches() {
  runtime::set_num_threads(4);
  const auto run = [](bool parallel, bool fails) {
    thread_state.parallel_backward = parallel;
    const Tensor x = parameter(filled_with(dims(33), 0.7)), w = parameter(filled_with(dims(33), 0.3));
    Tensor sum = total(x);
    for (int branch = 0; branch < 8; ++branch) {
      Tensor t = call<Mul>(x, 1.0 + branch);
      for (int i = 0; i < 6; ++i) t = call<Mul>(call<Tanh>(call<Add>(t, w)), x);
      if (fails && branch == 5) register_hook(t, [](const Tensor&) -> Tensor { fail("in a branch"); });
      sum = call<Add>(sum, total(t));
    }
    Tensors g;
    try {
      const Tensor ends[] = {x, w};
      g = backward(TensorList(&sum, 1), {}, ends, BackwardOptions{.accumulate = false}, false);
    } catch (const Error&) {
    }
    thread_state.parallel_backward = false;
    return g;
  };
  const Tensors expected = run(false, false);
  for (int round = 0; round < 15; ++round) {
    const Tensors g = run(true, false);
    for (size_t k = 0; k < 2; ++k)
      CHECK(std::memcmp(g[k].bytes(), expected[k].bytes(), 33 * sizeof(double)) == 0);
    CHECK(run(true, true).empty());
  }
  runtime::set_num_threads(1);
}

#if defined(ADJOINT_CHECKS) && defined(__unix__)
/// In such builds the door refuses a call under a lock: a child that makes one ends by SIGABRT.
void no_operator_under_a_lock() {
  const auto signal_of = [](auto&& f) {
    const pid_t child = fork();
    if (child == 0) {
      std::fclose(stderr);
      f();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  };
  const Tensor x = filled_with(dims(3), 2);
  runtime::SmallLock lock;
  CHECK(signal_of([&] { call<Mul>(x, x); }) == 0);
  CHECK(signal_of([&] {
          std::lock_guard held(lock);
          call<Mul>(x, x);
        }) == SIGABRT);
  CHECK(signal_of([&] {
          std::lock_guard held(lock);
          total(x);
        }) == SIGABRT);
}
#else
void no_operator_under_a_lock() {}
#endif

}  // namespace

int main() {
  runtime::set_num_threads(1);
  no_operator_under_a_lock();
  independent_graphs();
  kept_graph();
  consumed_graph();
  kept_and_consumed();
  shared_leaves();
  short_lived_graphs();
  hooks_meanwhile();
  blocks_change_hands();
  parallel_kernels();
  parallel_branches();
  return check::result();
}
