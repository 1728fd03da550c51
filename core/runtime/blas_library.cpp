// Finds a BLAS library and its routines. Start reading at `search`.
//
// Looked for, in this order: what set_blas_path was told; the OpenBLAS wheel installed beside the package;
// the system's libraries by name. ADJOINT_BLAS names one, of which there is a table below ("built-in": none
// at all), or a file; then nothing else will do. A library counts if it has dgemm under its plain name or
// with the prefix that the wheel gives, and integers of 32 bits.
#include "runtime/blas_library.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "for_size.h"
#include "runtime/blas.h"
#include "runtime/library.h"
#include "runtime/system.h"

namespace adjoint::runtime::blas {
namespace {

struct Table {
  Library library;
  std::string prefix;
  std::string tried;  // what failed and why, for messages
  Routines<float> of_float;
  Routines<double> of_double;
  Routines<std::complex<float>> of_complex_float;
  Routines<std::complex<double>> of_complex_double;

  void* find(const std::string& name) const { return library.find((prefix + name).c_str()); }
};

std::mutex path_mutex;
std::string chosen_path;
bool searched = false;

const char* asked_for() {
  const char* text = std::getenv("ADJOINT_BLAS");
  return text && *text ? text : nullptr;
}

/// OpenBLAS where pip, the system, and the user's loader have it.
std::vector<std::string> openblas_files(const std::string& folder) {
  const std::string beside = folder + "/../scipy_openblas32/lib/libscipy_openblas" + system::library_suffix;
  std::vector<std::string> files;
  if (!folder.empty()) files.push_back(beside);
  files.push_back(std::string("libscipy_openblas") + system::library_suffix);
  files.emplace_back("libopenblas.so.0");
  files.push_back(std::string("libopenblas") + system::library_suffix);
  return files;
}

/// The files of a library that ADJOINT_BLAS knows by name; none for other names.
std::vector<std::string> files_of(std::string_view name, const std::string& folder) {
  if (name == "openblas") return openblas_files(folder);
  if (name == "mkl") {
    std::vector<std::string> files;
    for (const char* file : {"libmkl_rt.so.3", "libmkl_rt.so.2"}) {
      // pip puts it into the folder that holds Python's own.
      if (!folder.empty()) files.push_back(folder + "/../../../" + file);
      files.emplace_back(file);
    }
    for (const char* file : {"libmkl_rt.so", "mkl_rt.3.dll", "mkl_rt.2.dll"}) files.emplace_back(file);
    return files;
  }
  if (name == "blis")
    return {"libblis.so.4", "libblis.so.3", std::string("libblis") + system::library_suffix};
  if (name == "accelerate") return {"/System/Library/Frameworks/Accelerate.framework/Accelerate"};
  return {};
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  {
    const std::lock_guard<std::mutex> lock(path_mutex);
    searched = true;
    if (!chosen_path.empty()) paths.push_back(chosen_path);
  }
  const std::string folder = own_folder();
  if (const char* name = asked_for()) {
    if (std::string_view(name) == "built-in") return {};
    std::vector<std::string> files = files_of(name, folder);
    if (files.empty()) return {name};
    paths.insert(paths.end(), files.begin(), files.end());
    return paths;
  }
  const std::vector<std::string> openblas = openblas_files(folder);
  paths.insert(paths.end(), openblas.begin(), openblas.end());
  for (const char* name : {"libcblas.so.3", "libblas.so.3"}) paths.emplace_back(name);
  paths.push_back(files_of("accelerate", folder).front());
  return paths;
}

/// Why the library will not do; empty if it will.
std::string examine(Table& table) {
  for (const char* prefix : {"scipy_", ""}) {
    table.prefix = prefix;
    if (!table.find("cblas_dgemm")) continue;
    if (void* config = table.find("openblas_get_config")) {
      const std::string text = reinterpret_cast<const char* (*)()>(config)();
      if (text.find("USE64BITINT") != std::string::npos) return "its integers have 64 bits, 32 are expected";
    }
    return {};
  }
  return "it has no cblas_dgemm";
}

template <class T>
void fill(Table& table, Routines<T>& routines, const std::string& letter, bool is_complex) {
  Routines<T> found;
  const auto bind = [&](auto*& slot, const char* name) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(table.find("cblas_" + letter + name));
    return slot != nullptr;
  };
  bool complete = bind(found.gemm, "gemm") && bind(found.gemv, "gemv");
  if (is_complex) {
    complete = complete && bind(found.dot_unconjugated, "dotu_sub") && bind(found.dot_conjugated, "dotc_sub");
  } else {
    complete = complete && bind(found.real_dot, "dot");
  }
  if (complete) routines = found;
}

Table search() {
  Table table;
  for (const std::string& path : candidates()) {
    std::string reason;
    table.library = Library::try_open(path, &reason);
    if (table.library) {
      reason = examine(table);
      if (reason.empty()) break;
      table.library.close();
    }
    table.tried += "\n  " + path + ": " + reason;
  }
  const char* asked = asked_for();
  if (!table.library && asked && std::string_view(asked) != "built-in") {
    throw std::runtime_error(std::string("ADJOINT_BLAS asks for '") + asked +
                             "', which cannot be used (known by name are openblas, mkl, blis, accelerate and "
                             "built-in; else it is a file). Tried:" +
                             table.tried);
  }
  if (!table.library) return table;
  LibraryCall::watch_end();
  // Before its first use; its own threads would be of a second kind beside ours.
  if (void* sequential = table.find("MKL_Set_Threading_Layer")) {
    reinterpret_cast<int (*)(int)>(sequential)(1);
    if (void* interface = table.find("MKL_Set_Interface_Layer")) reinterpret_cast<int (*)(int)>(interface)(0);
  }
  fill(table, table.of_float, "s", false);
  fill(table, table.of_double, "d", false);
  fill(table, table.of_complex_float, "c", true);
  fill(table, table.of_complex_double, "z", true);
  if (void* set = table.find("openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set)(1);
  }
  return table;
}

/// Never destroyed, like the library that it holds.
const Table& table() {
  static const Table* const found = new Table(search());
  return *found;
}

/// The thread that ends the program may call the library as before.
std::atomic<std::thread::id> ends;

}  // namespace

constinit std::atomic<int> LibraryCall::count_{0};

void LibraryCall::stop() {
  if (ends.load() == std::this_thread::get_id()) return;
  count_.fetch_sub(1, std::memory_order_release);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void LibraryCall::end() {
  using Clock = std::chrono::steady_clock;
  // Longer than most calls take: who waits for the end of a program is not kept for the others.
  const Clock::time_point latest = Clock::now() + std::chrono::seconds(2);
  ends = std::this_thread::get_id();
  count_.fetch_add(kEnding, std::memory_order_acquire);
  while (count_.load(std::memory_order_acquire) > kEnding && Clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void LibraryCall::watch_end() {
  // Threads whose calls were counted are not there after a fork.
  system::at_fork([] {}, [] {}, [] { count_.store(0); });
  std::atexit([] { end(); });
}

template <>
const Routines<float>& routines() {
  return table().of_float;
}
template <>
const Routines<double>& routines() {
  return table().of_double;
}
template <>
const Routines<std::complex<float>>& routines() {
  return table().of_complex_float;
}
template <>
const Routines<std::complex<double>>& routines() {
  return table().of_complex_double;
}

void set_blas_path(std::string path) {
  const std::lock_guard<std::mutex> lock(path_mutex);
  if (searched) throw std::runtime_error("set_blas_path: a BLAS library has already been looked for");
  chosen_path = std::move(path);
}

std::string blas_name() { return table().library ? table().library.path() : "built-in"; }

void* find_routine(const char* name) { return table().library ? table().find(name) : nullptr; }

void* require_routine(const char* name) {
  if (void* routine = find_routine(name)) return routine;
  if (table().library) {
    throw std::runtime_error("the library '" + table().library.path() + "' has no routine '" + name + "'");
  }
  throw std::runtime_error(std::string("'") + name +
                           "' needs a LAPACK library, and none was found. Install scipy-openblas32, or name "
                           "one in the environment variable ADJOINT_BLAS. Tried:" +
                           table().tried);
}

}  // namespace adjoint::runtime::blas
