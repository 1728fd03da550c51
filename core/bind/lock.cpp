// A thread that Python ends stops where it first reaches a frame of ours.
//
// Up to 3.13, a thread that asks for the lock of an interpreter that is ending is ended by `pthread_exit`,
// which with glibc unwinds its stack: destructors would run beside the thread that frees all objects, a
// `catch (...)` that does not pass it on ends the program, and so does a function that is `noexcept`. Every
// frame of C++ names the function that the unwinder asks what to do there; the linker puts ours (`--wrap`,
// see CMakeLists.txt) in front of it. Other systems do not unwind.
#include "bind/lock.h"

#if defined(ADJOINT_WRAPS_UNWINDING)
#include <unistd.h>
#include <unwind.h>

extern "C" {
_Unwind_Reason_Code __real___gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class,
                                                _Unwind_Exception*, _Unwind_Context*);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class type, _Unwind_Exception* exception,
                                                _Unwind_Context* context) {
  if (actions & _UA_FORCE_UNWIND)
    for (;;) pause();
  return __real___gxx_personality_v0(version, actions, type, exception, context);
}
}
#endif
