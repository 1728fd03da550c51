// Products of matrices and vectors, by a BLAS library that is opened on first use, or by plain loops.
//
// All matrices are row-major: A is m x k with `lda` elements from one row to the next, and so on. T is float,
// double, or std::complex of either.
//
// Three ways lead to a product, by size:
//   tiny      (m n k <= 128) direct loops, without a library: a call into one costs more than the product
//   middle    one call
//   large     tiles of the result, each one call, spread over the threads of parallel.h. The library itself
//   is
//             kept at one thread: so regions nest without oversubscription, and the tiles, hence the
//             rounding, do not depend on the number of threads.
//
// Start reading at `gemm`, then blas_products.cpp.
#pragma once

#include <atomic>
#include <complex>
#include <cstdint>
#include <string>

namespace adjoint::runtime::blas {

/// What is done to a matrix before it is used. `adjoint` is the conjugate transpose.
enum class Op { none, transpose, adjoint };

/// C = alpha op(A) op(B) + beta C, where op(A) is m x k and op(B) is k x n. With beta = 0, C is not read.
/// Throws std::invalid_argument for dimensions that are negative, or strides too short or beyond 2^31 - 1.
template <class T>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc);

/// y = alpha op(A) x + beta y, where A (before op) is m x n. With beta = 0, y is not read. Increments are
/// positive.
template <class T>
void gemv(Op op, int64_t m, int64_t n, T alpha, const T* a, int64_t lda, const T* x, int64_t incx, T beta,
          T* y, int64_t incy);

/// The sum of x_i y_i, or of conj(x_i) y_i.
template <class T>
T dot(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy, bool conjugate = false);

/// Where to look first, before the first use; later calls throw std::runtime_error. ADJOINT_BLAS goes before
/// it, and says "built-in" for no library at all.
void set_blas_path(std::string path);

/// The library in use, "built-in" without one. Opens it.
std::string blas_name();

/// Stands around each call of a routine of the library. OpenBLAS gives its memory back when the program ends,
/// to the harm of threads that still compute: so the end waits for calls that run, and what other threads
/// call later does not return.
class LibraryCall {
 public:
  LibraryCall() {
    if (count_.fetch_add(1, std::memory_order_acquire) >= kEnding) [[unlikely]]
      stop();
  }
  ~LibraryCall() { count_.fetch_sub(1, std::memory_order_release); }
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  /// When the library has been opened: from now on the end is seen.
  static void watch_end();

 private:
  /// Calls that run, and kEnding once the program ends.
  static constexpr int kEnding = 1 << 30;
  static std::atomic<int> count_;
  static void stop();
  static void end();
};

/// A routine of the library by its plain name ("sgesv_", "cblas_strsm"), whatever prefix the library gives
/// it; null when there is no library or no such routine. Integers are 32 bits wide.
void* find_routine(const char* name);
/// Throws std::runtime_error that says what is missing and how to get it.
void* require_routine(const char* name);

}  // namespace adjoint::runtime::blas
