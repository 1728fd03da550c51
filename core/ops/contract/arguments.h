// The vocabulary of arguments: what a parameter of an operator may be, and all that follows from its C++
// type.
//
// An operator states its parameters once, as the C++ types of `forward`. `ArgumentType<P>` says of such a
// type
//     meaning      what it is to an operator; transforms derive their rules from it (Dim, Dims, Sizes)
//     form         how it lies in a Value, which is what Python's arguments are read into
//     annotation   how a stub writes it
//     Owned, own, lend     what a node keeps of it, and how a rule gets it back
//     Plain        the type without its meaning, by which rules may take it: int64_t for a Dim
//     box, unbox   to and from a Value
// and `std::optional<T>` follows from T. Another parameter type is one more entry in this file; only one that
// Python writes in a new way needs a new form, which bind/arguments.cpp reads. See Note: arguments. Start
// reading at `Dim`.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/scalar.h"
#include "tensor/tensor.h"

namespace adjoint {

namespace runtime {
class Generator;
}

// --- The types ------------------------------------------------------------------------------------

/// A dimension of the first tensor, counted from either end.
struct Dim {
  int64_t value = 0;
  Dim() = default;
  Dim(int64_t v) : value(v) {}
  operator int64_t() const { return value; }
  /// Counted from the front.
  int of(int64_t rank, const char* op) const { return wrap_dim(value, rank, op); }
};
/// A dimension of the result, which has one more for each such parameter: unsqueeze, stack.
struct NewDim : Dim {
  using Dim::Dim;
};
using OptionalDim = std::optional<Dim>;

namespace arguments {
/// A list of ints with a meaning: it converts from and to a plain one.
struct MeaningfulInts : IntList {
  MeaningfulInts() = default;
  template <class L>
    requires std::is_convertible_v<const L&, IntList>
  MeaningfulInts(const L& list) : IntList(list) {}
};
}  // namespace arguments

/// Several dimensions of the first tensor, in any order.
struct DimList : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};
/// None means all of them.
using OptionalDims = std::optional<DimList>;
/// All dimensions of the first tensor, in the order that the result has them.
struct Permutation : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};
/// The whole shape of the result, or of what is to be like it.
struct Sizes : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};
/// How often along each dimension, the last ones if there are fewer; more than the tensor has make new ones.
struct Repeats : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};
/// Sizes or strides of memory: how elements lie, whatever the tensor's own dimensions are.
struct MemoryInts : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};
/// A basic index written as ints (ops/indexing.h), which names dimensions by its place.
struct IndexSpec : arguments::MeaningfulInts {
  using MeaningfulInts::MeaningfulInts;
};

using FloatList = std::span<const double>;
/// A source of random numbers; null for the default one.
using OptionalGenerator = runtime::Generator*;
using OptionalScalar = std::optional<Scalar>;
/// A text argument: rounding_mode, reduction.
using Text = std::string_view;
/// A tensor argument that may be left out: undefined then.
struct OptionalTensor : Tensor {
  using Tensor::Tensor;
  OptionalTensor(const Tensor& t) : Tensor(t) {}
};
/// A list of tensors of which some may be left out: undefined then.
struct OptionalTensorList : TensorList {
  using TensorList::TensorList;
  OptionalTensorList(TensorList list) : TensorList(list) {}
  OptionalTensorList(const Tensors& list) : TensorList(list) {}
};

// --- Boxed ----------------------------------------------------------------------------------------

/// How an argument lies in a Value.
enum class Form : uint8_t { Tensor, Scalar, Int, Float, Bool, Type, Text, Tensors, Ints, Floats, Generator };
/// What an argument is to an operator: transforms derive their rules from it.
enum class Meaning : uint8_t {
  Tensor,
  Tensors,
  Scalar,
  Int,
  Dim,
  NewDim,
  Float,
  Bool,
  Type,
  Text,
  Floats,
  Generator,
  Ints,
  Dims,
  Permutation,
  Sizes,
  Repeats,
  MemoryInts,
  IndexSpec
};
/// How the table writes a meaning, how such an argument lies in a Value, and how a stub writes it.
struct MeaningText {
  Meaning of;
  const char* name;
  Form form;
  const char* annotation;
};
inline constexpr const char* kInts = "int | Sequence[int]";
inline constexpr MeaningText kMeanings[] = {
    {.of = Meaning::Tensor, .name = "Tensor", .form = Form::Tensor, .annotation = "Tensor | Number"},
    {.of = Meaning::Tensors, .name = "Tensors", .form = Form::Tensors, .annotation = "Sequence[Tensor]"},
    {.of = Meaning::Scalar, .name = "Scalar", .form = Form::Scalar, .annotation = "Number | Tensor"},
    {.of = Meaning::Int, .name = "Int", .form = Form::Int, .annotation = "int"},
    {.of = Meaning::Dim, .name = "Dim", .form = Form::Int, .annotation = "int"},
    {.of = Meaning::NewDim, .name = "NewDim", .form = Form::Int, .annotation = "int"},
    {.of = Meaning::Float, .name = "Float", .form = Form::Float, .annotation = "float"},
    {.of = Meaning::Bool, .name = "Bool", .form = Form::Bool, .annotation = "bool"},
    {.of = Meaning::Type, .name = "Type", .form = Form::Type, .annotation = "dtype"},
    {.of = Meaning::Text, .name = "Text", .form = Form::Text, .annotation = "str"},
    {.of = Meaning::Floats, .name = "Floats", .form = Form::Floats, .annotation = "float | Sequence[float]"},
    {.of = Meaning::Generator, .name = "Generator", .form = Form::Generator, .annotation = "Generator"},
    {.of = Meaning::Ints, .name = "Ints", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::Dims, .name = "Dims", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::Permutation, .name = "Permutation", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::Sizes, .name = "Sizes", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::Repeats, .name = "Repeats", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::MemoryInts, .name = "MemoryInts", .form = Form::Ints, .annotation = kInts},
    {.of = Meaning::IndexSpec, .name = "IndexSpec", .form = Form::Ints, .annotation = kInts}};
static_assert(
    [] {
      size_t next = 0;
      for (const MeaningText& m : kMeanings)
        if (static_cast<size_t>(m.of) != next++) return false;
      return next == static_cast<size_t>(Meaning::IndexSpec) + 1;
    }(),
    "meanings are written in the order of their enumerators");
constexpr const MeaningText& text_of(Meaning m) { return kMeanings[static_cast<size_t>(m)]; }

/// One argument of a boxed call. Owns nothing.
struct Value {
  bool present = false;
  union {
    const Tensor* tensor;
    int64_t i;
    double d;
    bool b;
    DType type;
    runtime::Generator* generator;
    struct {
      const void* data;
      size_t size;
    } list;
    Scalar scalar;
  };
  Value() : tensor(nullptr) {}

  IntList ints() const { return {static_cast<const int64_t*>(list.data), list.size}; }
  TensorList tensors() const { return {static_cast<const Tensor*>(list.data), list.size}; }
  FloatList floats() const { return {static_cast<const double*>(list.data), list.size}; }
  Text text() const { return {static_cast<const char*>(list.data), list.size}; }
};

/// What a table row says of one parameter.
struct ArgKind {
  Meaning meaning;
  Form form;
  bool optional;           // None may be given
  bool optional_elements;  // of a list: some may be None
  const char* annotation;  // without "| None"
  /// Box the argument at an address, which has the C++ type of this kind.
  void (*box)(const void* at, Value& v);
};

/// An argument as Python would write it; empty for tensors.
std::string describe(const ArgKind& kind, const Value& v);

/// The value that a signature's text gives, and the memory that it needs.
struct Default {
  Value value;
  std::string text;
  Dims ints;
};
/// Read a default as a signature writes it. False where this kind has none such.
bool read_default(const ArgKind& kind, std::string_view text, Default& to);

// --- The trait ------------------------------------------------------------------------------------

struct Nothing {};

template <class P>
struct ArgumentType;

namespace arguments {
template <Meaning m>
struct Means {
  static constexpr Meaning meaning = m;
  static constexpr Form form = text_of(m).form;
  static constexpr const char* annotation = text_of(m).annotation;
  static constexpr bool optional = false, optional_elements = false;
};
/// What holds no memory of its own: a node keeps it as it is. `At` is its place in a Value.
template <class P, auto At, Meaning m>
struct InValue : Means<m> {
  using Owned = P;
  using Plain = std::remove_reference_t<decltype(std::declval<Value&>().*At)>;
  static P own(const P& p) { return p; }
  static P lend(const P& o) { return o; }
  static void box(const P& p, Value& v) {
    v.present = true;
    v.*At = p;
  }
  static P unbox(const Value& v) { return P(v.*At); }
};
/// Tensors: what a node keeps of them, the operator's rules say.
template <Meaning m>
struct OfTensors : Means<m> {
  using Owned = Nothing;
  using Plain = void;
  template <class P>
  static Nothing own(const P&) {
    return {};
  }
};
/// A list over foreign memory, kept as `Copy`.
template <class P, class Copy, class Element, Meaning m>
struct OfList : Means<m> {
  using Owned = Copy;
  using Plain = std::span<const Element>;
  static Copy own(const P& p) { return Copy(p); }
  static P lend(const Copy& o) { return P(std::span<const Element>(o.data(), o.size())); }
  static void box(const P& p, Value& v) {
    v.present = true;
    v.list = {p.data(), p.size()};
  }
  static P unbox(const Value& v) {
    return P(std::span<const Element>(static_cast<const Element*>(v.list.data), v.list.size));
  }
};
template <class P, Meaning m>
using OfInts = OfList<P, Dims, int64_t, m>;
}  // namespace arguments

template <>
struct ArgumentType<Tensor> : arguments::OfTensors<Meaning::Tensor> {
  static void box(const Tensor& t, Value& v) {
    v.present = true;
    v.tensor = &t;
  }
  static const Tensor& unbox(const Value& v) { return *v.tensor; }
};
template <>
struct ArgumentType<OptionalTensor> : arguments::OfTensors<Meaning::Tensor> {
  static constexpr bool optional = true;
  static void box(const OptionalTensor& t, Value& v) {
    v.present = t.defined();
    v.tensor = &t;
  }
  static OptionalTensor unbox(const Value& v) {
    return v.present ? OptionalTensor(*v.tensor) : OptionalTensor();
  }
};
template <>
struct ArgumentType<TensorList> : arguments::OfTensors<Meaning::Tensors> {
  static void box(const TensorList& l, Value& v) {
    v.present = true;
    v.list = {l.data(), l.size()};
  }
  static TensorList unbox(const Value& v) { return v.tensors(); }
};
template <>
struct ArgumentType<OptionalTensorList> : ArgumentType<TensorList> {
  static constexpr const char* annotation = "Sequence[Tensor | None]";
  static constexpr bool optional_elements = true;
  static OptionalTensorList unbox(const Value& v) { return v.tensors(); }
};
template <>
struct ArgumentType<Scalar> : arguments::InValue<Scalar, &Value::scalar, Meaning::Scalar> {};
template <>
struct ArgumentType<int64_t> : arguments::InValue<int64_t, &Value::i, Meaning::Int> {};
template <>
struct ArgumentType<Dim> : arguments::InValue<Dim, &Value::i, Meaning::Dim> {};
template <>
struct ArgumentType<NewDim> : arguments::InValue<NewDim, &Value::i, Meaning::NewDim> {};
template <>
struct ArgumentType<double> : arguments::InValue<double, &Value::d, Meaning::Float> {};
template <>
struct ArgumentType<bool> : arguments::InValue<bool, &Value::b, Meaning::Bool> {};
template <>
struct ArgumentType<DType> : arguments::InValue<DType, &Value::type, Meaning::Type> {};
template <>
struct ArgumentType<Text> : arguments::OfList<Text, std::string, char, Meaning::Text> {
  static Text lend(const std::string& o) { return o; }
  static Text unbox(const Value& v) { return v.text(); }
};
template <>
struct ArgumentType<FloatList> : arguments::OfList<FloatList, std::vector<double>, double, Meaning::Floats> {
};
/// Kept by no node: a rule draws no numbers.
template <>
struct ArgumentType<OptionalGenerator> : arguments::OfTensors<Meaning::Generator> {
  static constexpr bool optional = true;
  static void box(OptionalGenerator g, Value& v) {
    v.present = g != nullptr;
    v.generator = g;
  }
  static OptionalGenerator unbox(const Value& v) { return v.present ? v.generator : nullptr; }
};
template <>
struct ArgumentType<IntList> : arguments::OfInts<IntList, Meaning::Ints> {};
template <>
struct ArgumentType<DimList> : arguments::OfInts<DimList, Meaning::Dims> {};
template <>
struct ArgumentType<Permutation> : arguments::OfInts<Permutation, Meaning::Permutation> {};
template <>
struct ArgumentType<Sizes> : arguments::OfInts<Sizes, Meaning::Sizes> {};
template <>
struct ArgumentType<Repeats> : arguments::OfInts<Repeats, Meaning::Repeats> {};
template <>
struct ArgumentType<MemoryInts> : arguments::OfInts<MemoryInts, Meaning::MemoryInts> {};
template <>
struct ArgumentType<IndexSpec> : arguments::OfInts<IndexSpec, Meaning::IndexSpec> {};

/// What may be left out: None.
template <class T>
struct ArgumentType<std::optional<T>> : ArgumentType<T> {
  using Of = ArgumentType<T>;
  using Owned = std::optional<typename Of::Owned>;
  using Plain = std::optional<typename Of::Plain>;
  static constexpr bool optional = true;
  static Owned own(const std::optional<T>& p) { return p ? Owned(Of::own(*p)) : Owned(); }
  static std::optional<T> lend(const Owned& o) { return o ? std::optional<T>(Of::lend(*o)) : std::nullopt; }
  static void box(const std::optional<T>& p, Value& v) {
    v.present = false;
    if (p) Of::box(*p, v);
  }
  static std::optional<T> unbox(const Value& v) {
    return v.present ? std::optional<T>(Of::unbox(v)) : std::nullopt;
  }
};

/// The entry of a parameter, however it is passed.
template <class P>
using argument_t = ArgumentType<std::remove_cvref_t<P>>;
template <class P>
concept IsArgument = requires { argument_t<P>::form; };

template <class P>
inline constexpr ArgKind kind_of{
    argument_t<P>::meaning,
    argument_t<P>::form,
    argument_t<P>::optional,
    argument_t<P>::optional_elements,
    argument_t<P>::annotation,
    [](const void* at, Value& v) { argument_t<P>::box(*static_cast<const std::remove_cvref_t<P>*>(at), v); }};

}  // namespace adjoint
