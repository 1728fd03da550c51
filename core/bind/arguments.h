// Reading Python's arguments: which way to give an operator's arguments they fit, and the Values of the boxed
// call.
//
// Nothing is thrown on the way: `Alternate::match` looks at types alone and says why it refuses, and a text
// is made of that only when no alternate fits. What then is read has the right type, and may still have a
// wrong value.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "bind/convert.h"
#include "dispatch/operator.h"

namespace adjoint::bind {

/// A call as Python makes it. `out=` is no argument of operators, and left out here.
struct Given {
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
  Py_ssize_t out = -1;  // its number among the keywords

  Py_ssize_t keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

/// How well arguments fit a signature: as they are, or after a conversion (a number for a tensor, a bool for
/// an int).
enum class Fit : uint8_t { No, Converted, Exact };

/// Why arguments do not fit.
struct Refusal {
  enum class Why : uint8_t {
    TooMany,
    Keyword,
    Twice,
    Missing,
    Type,
    SpeltWithKeywords,
    Elements
  } why = Why::Type;
  int parameter = 0;
  PyObject* given = nullptr;
};

/// The arguments of a call by parameter; null where the default stands.
struct Match {
  PyObject* found[kMostArguments];
  /// Sizes are spelt out, x.view(2, 3): so many arguments belong to the last parameter given by place.
  Py_ssize_t spelt = 0;
  PyObject* const* first_spelt = nullptr;
};

/// One way to call an operator, with its names as Python holds them.
struct Alternate {
  const Signature* signature;
  const std::deque<Default>* defaults;              // of all arguments of the operator
  std::vector<PyObject*> names;                     // interned
  std::vector<std::pair<PyObject*, int>> synonyms;  // interned, with the parameter
  mutable bool warned = false;
  /// For an element-wise form of another operator: the types that one of its tensors has to have, a bit each;
  /// 0: it takes any.
  uint32_t elements = 0;

  Alternate(const Signature& signature, const std::deque<Default>& defaults);
  const Operator& op() const { return *signature->op; }
  Fit match(const Given& given, Match& m, Refusal& refusal) const;
  /// The signature as functions have it, whose first argument is the input.
  std::string text() const;
  /// Why not, as a sentence without its subject.
  std::string explain(const Refusal& refusal, const Given& given) const;

 private:
  int position_of(PyObject* name) const;
};

/// Values for a call, and the memory of what was converted on the way.
class Arguments {
 public:
  explicit Arguments(const Operator& op) : op_(op), count_(op.kinds.size()) {
    std::uninitialized_default_construct_n(values_, count_);
    std::uninitialized_default_construct_n(tensors_, count_);
  }
  [[gnu::hot]] ~Arguments() { std::destroy_n(tensors_, count_); }
  Arguments(const Arguments&) = delete;
  /// Throws a core error, or PythonError, where a value cannot be read.
  void read(const Alternate& alternate, const Match& m);
  const Value* values() const { return values_; }
  /// Elements in all tensors: whether the work is worth letting other threads run.
  int64_t elements() const { return elements_; }

 private:
  void set(const Parameter& p, PyObject* o);
  void keep_ints(Value& v, Dims dims);
  bool plain_ints(PyObject* o, Value& v);

  const Operator& op_;
  const size_t count_;
  // As many of them are there as the operator has arguments.
  union {
    Value values_[kMostArguments];
  };
  /// Numbers that stand for tensors.
  union {
    Tensor tensors_[kMostArguments];
  };
  Dims ints_[3];
  int ints_used_ = 0;
  std::vector<std::unique_ptr<Dims>> more_ints_;
  std::vector<Tensors> lists_;
  std::vector<std::vector<double>> floats_;
  int64_t elements_ = 0;
  /// The type that a number takes, the first argument's; and whether there are others.
  DType like_ = DType::Int64;
  bool mixed_ = false;
};

/// A boxed argument as a program would have given it; a new reference.
PyObject* to_python(const ArgKind& kind, const Value& v);

}  // namespace adjoint::bind
