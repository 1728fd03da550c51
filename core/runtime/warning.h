// What the core has to say without stopping: a word to the program's author, who hears it as the language
// warns.
#pragma once

namespace adjoint::runtime {

/// Says `message`. Without a language around it, nobody hears. It may throw, where warnings are errors.
inline void (*warn)(const char* message) = [](const char*) {};

}  // namespace adjoint::runtime
