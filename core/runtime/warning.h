// What the core has to say without stopping: a word to the program's author, who hears it as the language
// warns.
#pragma once

namespace adjoint::runtime {

/// How the language warns. It may throw, where warnings are errors.
inline void (*hear_warning)(const char* message) = [](const char*) {};

/// Thrown where a warning is due in a scope of NoWarnings.
struct Warned {};
class NoWarnings {
 public:
  NoWarnings() : before_(stands) { stands = true; }
  ~NoWarnings() { stands = before_; }
  NoWarnings(const NoWarnings&) = delete;
  static inline thread_local bool stands = false;

 private:
  const bool before_;
};

/// Says `message`. Without a language around it, nobody hears.
inline void warn(const char* message) {
  if (NoWarnings::stands) throw Warned();
  hear_warning(message);
}

}  // namespace adjoint::runtime
