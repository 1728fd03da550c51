// What tests of threads share: `in_threads` starts them together, `outcome` tells what a call came to.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "adjoint.h"

namespace adjoint {

inline Tensor filled_with(IntList sizes, double value) { return full(sizes, Scalar(value), DType::Float64); }
inline Tensor total(const Tensor& t) { return op<Sum>(t, {}, false, {}); }

inline bool all_are(const Tensor& t, double value, double tolerance = 0) {
  if (!t.defined()) return false;
  const Tensor d = dense(t);
  bool good = true;
  for (int64_t i = 0; i < d.numel(); ++i) good &= std::abs(d.data<double>()[i] - value) <= tolerance;
  return good;
}

/// f(number) in so many threads, started together.
template <class F>
void in_threads(int count, const F& f) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      f(t);
    });
  for (std::thread& t : threads) t.join();
}

/// What a call came to.
enum class Outcome { Ran, SecondTime, Failed };
template <class F>
Outcome outcome(F&& f) {
  try {
    f();
    return Outcome::Ran;
  } catch (const Error& e) {
    if (std::string(e.what()).find("a second time") != std::string::npos) return Outcome::SecondTime;
    std::fprintf(stderr, "  %s\n", e.what());
    return Outcome::Failed;
  }
}

}  // namespace adjoint
