// Reading Python's arguments: which way to give an operator's arguments they fit, and the Values of the boxed
// call.
//
// Nothing is thrown on the way: `Alternate::match` looks at types alone and says why it refuses, and a text
// is made of that only when no alternate fits. What then is read has the right type, and may still have a
// wrong value.
#pragma once

#include <Python.h>

#include <bit>
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

/// The arguments of a call by parameter: those in `given`, as bits. For others the default stands.
struct Match {
  uint32_t given;
  PyObject* found[kMostArguments];
  /// Sizes are spelt out, x.view(2, 3): so many arguments belong to the last parameter given by place.
  Py_ssize_t spelt = 0;
  PyObject* const* first_spelt = nullptr;
};

/// One way to call an operator, with its names as Python holds them.
struct Alternate {
  const Signature* signature;
  std::vector<Value> defaults;                      // of all arguments of the operator
  std::vector<PyObject*> names;                     // interned
  std::vector<std::pair<PyObject*, int>> synonyms;  // interned, with the parameter
  uint32_t required = 0;                            // parameters without a default, as bits
  mutable bool warned = false;
  /// For an element-wise form of another operator: the types that one of its tensors has to have, a bit each;
  /// 0: it takes any.
  uint32_t elements = 0;

  Alternate(const Signature& signature, const std::deque<Default>& defaults);
  const Operator& op() const { return *signature->op; }
  /// The parameter of that name; -1: none.
  int position_of(PyObject* name) const;
  Fit match(const Given& given, Match& m, Refusal& refusal) const;
  /// The signature as functions have it, whose first argument is the input.
  std::string text() const;
  /// Why not, as a sentence without its subject.
  std::string explain(const Refusal& refusal, const Given& given) const;
};

/// Values for a call, and the memory of what was converted on the way.
class Arguments {
 public:
  Arguments() {}
  ~Arguments() {
    for (uint32_t rest = numbers_; rest; rest &= rest - 1) std::destroy_at(&tensors_[std::countr_zero(rest)]);
  }
  Arguments(const Arguments&) = delete;
  /// Match and read in one go arguments of just the types that are asked for, as those of nearly all calls
  /// are. False for others, of which `match` says whether they fit.
  bool read(const Alternate& way, const Given& given);
  /// Throws a core error, or PythonError, where a value cannot be read.
  void read(const Alternate& way, const Match& m);
  const Value* values() const { return values_; }
  /// Elements in all tensors: whether the work is worth letting other threads run.
  int64_t elements() const { return elements_; }

 private:
  void take(Value& v, const Parameter& p, const Tensor& t);
  bool set(const Parameter& p, PyObject* o);
  void convert(const Parameter& p, PyObject* o);
  bool set_ints(Value& v, PyObject* const* items, Py_ssize_t count);
  void convert_ints(const Parameter& p, PyObject* const* items, Py_ssize_t count);
  int64_t* room_for(size_t n, Value& v);

  const Operator* op_ = nullptr;
  // As many of them are there as the operator has arguments.
  union {
    Value values_[kMostArguments];
  };
  /// Numbers that stand for tensors: those of the parameters in `numbers_`, as bits.
  union {
    Tensor tensors_[kMostArguments];
  };
  uint32_t numbers_ = 0;
  /// All lists of ints, one after another, and those for which there is no room.
  int64_t ints_[16];
  size_t ints_used_ = 0;
  /// What else was made for the call.
  struct Made {
    std::vector<std::unique_ptr<int64_t[]>> ints;
    std::vector<Tensors> lists;
    std::vector<std::vector<double>> floats;
  };
  std::unique_ptr<Made> made_;
  Made& made() {
    if (!made_) made_ = std::make_unique<Made>();
    return *made_;
  }
  int64_t elements_ = 0;
  /// The type that a number takes, the first argument's; and whether there are others.
  DType like_ = DType::Int64;
  bool mixed_ = false;
};

/// A boxed argument as a program would have given it; a new reference.
PyObject* to_python(const ArgKind& kind, const Value& v);

}  // namespace adjoint::bind
