// Forward mode and batching in many threads at once: what ThreadSanitizer runs. Each thread has levels of its
// own over tensors that all share: leaves, views, duals of another thread. Start at `main`.
#include "check.h"
#include "threads.h"
#include "transforms/batching.h"
#include "transforms/forward.h"

using namespace adjoint;

namespace {

/// A level of forward mode, for a scope.
struct Forward {
  DualLevel& level = enter_dual_level();
  const uint64_t number = level.number;
  ~Forward() { leave_dual_level(number); }
};

/// A level of a vmap(), for a scope.
struct Mapped {
  BatchLevel& level;
  const uint64_t number = level.number;
  explicit Mapped(int64_t size) : level(enter_batch_level(size, Randomness::Error, true)) {}
  ~Mapped() { leave_batch_level(level); }
};

Tensor cube(const Tensor& x) { return call<Mul>(call<Square>(x), x); }

/// Each thread pushes its own tangent through shared leaves and views of them, and differentiates that again.
void levels_over_shared_leaves() {
  const Tensor x = parameter(filled_with(dims(4, 5), 2));
  const Tensor row = op<Select>(x, 0, 1);
  in_threads(8, [&](int t) {
    for (int round = 0; round < 20; ++round) {
      const Forward forward;
      const Tensor dual = make_dual(x, filled_with(dims(4, 5), t + 1), forward.level);
      const Tensor y = call<Mul>(cube(op<Transpose>(dual, 0, 1)), 2.0);
      const Tensor tangent = unpack_dual(y, forward.level).second;
      CHECK(all_are(tangent, 2 * 12 * (t + 1)));
      CHECK(all_are(grad(total(tangent), {&x, 1}, {})[0], 2 * 12 * (t + 1)));
      CHECK(!unpack_dual(call<Square>(row), forward.level).second.defined());
      // An inner level, whose tangent is that of the outer one.
      const Forward inner;
      const Tensor twice = make_dual(dual, filled_with(dims(4, 5), 1), inner.level);
      const Tensor slope = unpack_dual(cube(twice), inner.level).second;
      CHECK(all_are(unpack_dual(slope, forward.level).second, 12 * (t + 1)));
    }
  });
}

/// Writes to views of a thread's own duals, whose tangents follow.
void writes_of_duals() {
  const Tensor x = filled_with(dims(3, 4), 3);
  in_threads(6, [&](int t) {
    for (int round = 0; round < 20; ++round) {
      const Forward forward;
      const Tensor dual = make_dual(call<Clone>(x), filled_with(dims(3, 4), t + 1), forward.level);
      const Tensor part = op<Select>(dual, 0, 2);
      call<Copy>(part, call<Square>(part));
      CHECK(all_are(op<Select>(unpack_dual(dual, forward.level).second, 0, 2), 6 * (t + 1)));
      CHECK(all_are(op<Select>(unpack_dual(dual, forward.level).second, 0, 0), t + 1));
    }
  });
}

/// Duals of one thread that others read, take views of, and drop, up to and past the end of their level.
void duals_change_hands() {
  for (int round = 0; round < 40; ++round) {
    std::atomic<bool> over{false};
    Tensor dual;
    uint64_t number = 0;
    const auto use = [&](int t) {
      Tensor mine = dual;
      for (int i = 0; i < 8; ++i) {
        const Tensor y = cube(t % 2 ? op<Select>(mine, 0, 1) : mine);
        CHECK(all_are(y, 8));
        if (over.load()) CHECK(!level_above(y, 0));
      }
      mine = {};
    };
    DualLevel& level = enter_dual_level();
    number = level.number;
    dual = make_dual(filled_with(dims(2, 30), 2), filled_with(dims(2, 30), 1), level);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back(use, t);
    CHECK(all_are(unpack_dual(cube(dual), level).second, 12));
    leave_dual_level(number);
    over = true;
    for (std::thread& t : threads) t.join();
    CHECK(!is_dual(dual));
  }
}

/// Each thread maps over shared samples, inside and outside of gradients and with tangents of its own.
void batches_over_shared_samples() {
  const Tensor samples = parameter(filled_with(dims(6, 5), 2)), w = parameter(filled_with(dims(5), 3));
  in_threads(8, [&](int t) {
    for (int round = 0; round < 20; ++round) {
      const Mapped mapped(6);
      const Tensor x = batched(samples, mapped.number);
      const Tensor y = total(call<Mul>(cube(x), w));
      const Tensor leaves[] = {samples, w};
      const Tensors outside = grad(total(unbatched(y, mapped.level)), leaves, {});
      CHECK(all_are(outside[0], 36) && all_are(outside[1], 48));
      const Tensor inside = parameter(batched(filled_with(dims(6, 5), t + 1), mapped.number));
      const Tensor g = grad(total(call<Mul>(cube(inside), w)), {&inside, 1}, {})[0];
      CHECK(all_are(unbatched(g, mapped.level), 9 * (t + 1) * (t + 1)));
      // Another vmap() in it, and a tangent.
      const Mapped inner(5);
      const Forward forward;
      const Tensor each = batched(inside, inner.number);
      const Tensor dual = make_dual(
          each, batched(unbatched(filled_with(dims(), t + 1), inner.level), inner.number), forward.level);
      const Tensor slope = unpack_dual(cube(dual), forward.level).second;
      CHECK(
          all_are(unbatched(unbatched(slope, inner.level), mapped.level), 3.0 * (t + 1) * (t + 1) * (t + 1)));
    }
  });
}

/// What was made inside and is written a value for each sample; an error in the middle leaves the levels of
/// its thread.
void writes_inside() {
  const Tensor samples = filled_with(dims(4, 3), 2), outside = filled_with(dims(3), 0);
  in_threads(6, [&](int t) {
    for (int round = 0; round < 20; ++round) {
      {
        const Mapped mapped(4);
        const Tensor buffer = zeros(dims(2, 3), DType::Float64);
        call<Copy>(op<Select>(buffer, 0, 1), call<Mul>(batched(samples, mapped.number), t + 1.0));
        CHECK(all_are(unbatched(total(buffer), mapped.level), 6 * (t + 1)));
        CHECK_THROWS(Error, call<Copy>(outside, batched(samples, mapped.number)));
      }
      CHECK(!thread_state.batch_level);
    }
  });
  CHECK(all_are(outside, 0));
}

/// Loops in several threads of the pool, under levels of the thread that asked.
void large_calls() {
  runtime::set_num_threads(3);
  const Tensor x = parameter(filled_with(dims(4, 60000), 0.5));
  in_threads(3, [&](int t) {
    for (int round = 0; round < 3; ++round) {
      const Forward forward;
      Tensor tangent;
      {
        const GradMode off(false);
        const Tensor dual = make_dual(x, filled_with(dims(4, 60000), t + 1), forward.level);
        tangent = unpack_dual(total(call<Add>(cube(dual), call<Mul>(dual, dual))), forward.level).second;
      }
      CHECK(all_are(tangent, 240000 * (0.75 + 1) * (t + 1), 1e-6));
      const Mapped mapped(4);
      const Tensor y = total(cube(batched(x, mapped.number)));
      CHECK(all_are(grad(total(unbatched(y, mapped.level)), {&x, 1}, {})[0], 0.75));
    }
  });
  runtime::set_num_threads(1);
}

}  // namespace

int main() {
  runtime::set_num_threads(1);
  levels_over_shared_leaves();
  writes_of_duals();
  duals_change_hands();
  batches_over_shared_samples();
  writes_inside();
  large_calls();
  return check::result();
}
