// Reading Python's arguments into the Values of a boxed call.
#pragma once

#include <Python.h>

#include <deque>
#include <string>
#include <vector>

#include "bind/convert.h"
#include "dispatch/operator.h"

namespace adjoint::bind {

/// One parameter of a signature: "keepdim=False", after "*," keyword-only.
struct Parameter {
  PyObject* name;  // interned
  std::string text;
  ArgKind kind;
  bool has_default = false;
  bool keyword_only = false;
  std::string default_text;
};

/// A parsed signature; made once per operator, at its first call.
struct Signature {
  std::vector<Parameter> parameters;
  int positional = 0;
  explicit Signature(const Operator& op);
};

/// Values for a call, and the memory of what was converted on the way.
class Arguments {
 public:
  static constexpr int kMost = kMostArguments;

  Arguments(const Operator& op, const Signature& signature) : op_(op), signature_(signature) {}
  ~Arguments();
  /// Throws a core error, or PythonError.
  void parse(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
  const Value* values() const { return values_; }
  /// Elements in all tensors: whether the work is worth letting other threads run.
  int64_t elements() const { return elements_; }

 private:
  void set(int i, PyObject* o);
  void set_default(int i);
  void set_ints(int i, Dims dims);
  [[noreturn]] void refuse(int i, PyObject* o, const char* expected) const;

  const Operator& op_;
  const Signature& signature_;
  Value values_[kMost];
  Tensor tensors_[kMost];
  Dims ints_[4];
  int ints_used_ = 0;
  std::deque<Dims> more_ints_;
  std::vector<std::vector<Tensor>> lists_;
  int64_t elements_ = 0;
  bool any_tensor_ = false;
  /// The type that a number takes, the first argument's; and whether there are others.
  DType like_ = DType::Int64;
  bool mixed_ = false;
};

}  // namespace adjoint::bind
