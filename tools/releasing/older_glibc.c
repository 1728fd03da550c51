/* What the C++ library of today asks of a C library newer than 2.28, on what 2.28 has; linked into the wheels' module
   and visible in it alone (tools/releasing/targets.py). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

int __fxstat64(int version, int file, struct stat64* status);

#pragma GCC visibility push(hidden)

/* 2.32; whether atomic counts may be plain ones: never. */
char __libc_single_threaded = 0;

/* 2.36 */
uint32_t arc4random(void) {
  uint32_t bits = 0;
  while (getentropy(&bits, sizeof bits) != 0) {
  }
  return bits;
}

/* 2.30; a wait on the steady clock, carried over to the clock of the day, as the C++ library did before. Spurious ends
   of waits are allowed, and callers look at their own clock again. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  struct timespec there, here, end;
  clock_gettime(clock, &there);
  clock_gettime(CLOCK_REALTIME, &here);
  end.tv_sec = until->tv_sec - there.tv_sec + here.tv_sec;
  end.tv_nsec = until->tv_nsec - there.tv_nsec + here.tv_nsec;
  for (; end.tv_nsec < 0; --end.tv_sec) end.tv_nsec += 1000000000;
  for (; end.tv_nsec >= 1000000000; ++end.tv_sec) end.tv_nsec -= 1000000000;
  return pthread_cond_timedwait(condition, mutex, &end);
}

/* 2.33, which made functions of what were macros over these. */
int fstat64(int file, struct stat64* status) {
#if defined(__x86_64__)
  return __fxstat64(1, file, status);
#else
  return __fxstat64(0, file, status);
#endif
}

#pragma GCC visibility pop
