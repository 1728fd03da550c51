// The smallest of test tools: CHECK counts and reports failures, CHECK_THROWS wants an exception of a type,
// and `check::result()` is what main returns.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdio>

namespace check {

inline std::atomic<int> checked{0};
inline std::atomic<int> failed{0};

inline bool that(bool held, const char* text, const char* file, int line) {
  ++checked;
  if (!held) {
    ++failed;
    std::fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
  }
  return held;
}

inline bool close(double a, double b, double relative, double absolute = 0) {
  return std::abs(a - b) <= absolute + relative * std::abs(b);
}

inline int result() {
  std::printf("%d checks, %d failed\n", checked.load(), failed.load());
  return failed == 0 && checked > 0 ? 0 : 1;
}

}  // namespace check

#define CHECK(...) ::check::that(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CHECK_THROWS(Exception, ...)                                               \
  do {                                                                             \
    bool caught = false;                                                           \
    try {                                                                          \
      (void)(__VA_ARGS__);                                                         \
    } catch (const Exception&) {                                                   \
      caught = true;                                                               \
    }                                                                              \
    ::check::that(caught, #__VA_ARGS__ " throws " #Exception, __FILE__, __LINE__); \
  } while (false)
