// Reductions, scans and sorting: values against naive loops over layouts and types, derivatives against
// finite differences. Start at `main`.
#include "check.h"
#include "dispatch/operator.h"
#include "gradient_check.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/scan.h"
#include "ops/shape.h"
#include "ops/sorting.h"
#include "runtime/parallel.h"

using namespace adjoint;
using check::derivatives_agree;
using check::filled;

namespace {

OptionalInts dims(const std::vector<int64_t>& d) { return OptionalInts(IntList(d.data(), d.size())); }
double at(const Tensor& t, int64_t i) {
  const Tensor d = dense(t);
  return read_element(d.bytes() + i * d.itemsize(), d.dtype()).as_double();
}

/// The sum over a mask, the slow way.
std::vector<double> naive_sum(const Tensor& x, uint64_t mask) {
  const Dims kept = reduced_shape(x.sizes(), mask, true);
  const Dims steps = contiguous_strides({kept.data(), kept.size()});
  std::vector<double> out(static_cast<size_t>(product({kept.data(), kept.size()})));
  const Tensor d = dense(x);
  for (int64_t i = 0; i < d.numel(); ++i) {
    int64_t rest = i, place = 0;
    for (int64_t k = d.dim() - 1; k >= 0; --k) {
      if (!(mask >> k & 1)) place += rest % d.size(k) * steps[static_cast<size_t>(k)];
      rest /= d.size(k);
    }
    out[static_cast<size_t>(place)] += at(d, i);
  }
  return out;
}

void layouts_and_types() {
  const int64_t shapes[][4] = {{3, 4, 5, 2},   {1, 70, 3, 1}, {2, 3, 150, 4},
                               {300, 2, 2, 3}, {0, 3, 2, 2},  {5, 1, 1, 1030}};
  for (const auto& sizes : shapes)
    for (DType type :
         {DType::Float32, DType::Float64, DType::Float16, DType::Int32, DType::Bool, DType::UInt8})
      for (int layout = 0; layout < 3; ++layout)
        for (uint64_t mask = 1; mask < 16; ++mask) {
          Tensor x = empty(IntList(sizes, 4), type);
          for (int64_t i = 0; i < x.numel(); ++i)
            write_element(x.bytes() + i * x.itemsize(), type,
                          Scalar(static_cast<int64_t>(i * 7 % 5) - (type == DType::UInt8 ? 0 : 2)));
          if (layout == 1) {  // dimensions in another order
            const int64_t s[] = {x.size(2), x.size(0), x.size(3), x.size(1)},
                          t[] = {x.stride(2), x.stride(0), x.stride(3), x.stride(1)};
            x = alias(x, IntList(s, 4), IntList(t, 4), 0);
          } else if (layout == 2) {  // every other element of the last dimension, and one dimension repeated
            const int64_t s[] = {x.size(0), 3, x.size(2), (x.size(3) + 1) / 2},
                          t[] = {x.stride(0), 0, x.stride(2), 2 * x.stride(3)};
            if (x.numel() == 0) continue;
            x = alias(x, IntList(s, 4), IntList(t, 4), 0);
          }
          std::vector<int64_t> d;
          for (int64_t k = 0; k < 4; ++k)
            if (mask >> k & 1) d.push_back(k % 2 ? k : k - 4);
          const Tensor y = call<Sum>(x, dims(d), false, OptionalType());
          const auto expected = naive_sum(x, mask);
          bool good = y.numel() == static_cast<int64_t>(expected.size());
          for (int64_t i = 0; good && i < y.numel(); ++i) good = at(y, i) == expected[static_cast<size_t>(i)];
          CHECK(good);
          if (x.numel() == 0) continue;
          const Tensor high = call<Amax>(x, dims(d), true), low = call<Amin>(x, dims(d), true);
          CHECK(at(call<All>(high, OptionalInts(), false), 0) ==
                (at(call<CountNonzero>(high, OptionalInts()), 0) == high.numel()));
          const Tensor count = call<CountNonzero>(x, dims(d));
          double total = 0;
          for (int64_t i = 0; i < count.numel(); ++i) total += at(count, i);
          CHECK(total == at(call<CountNonzero>(x, OptionalInts()), 0));
          CHECK(at(call<MaxAll>(x), 0) == at(call<MaxAll>(high), 0) &&
                at(call<MinAll>(x), 0) == at(call<MinAll>(low), 0));
        }
}

void accuracy() {
  const int64_t n[] = {3000, 1111};
  const Tensor x = full(IntList(n, 2), Scalar(0.1), DType::Float32);
  for (int threads : {1, 2, 3}) {
    runtime::set_num_threads(threads);
    CHECK(check::close(at(call<Sum>(x, OptionalInts(), false, OptionalType()), 0),
                       3000 * 1111 * static_cast<double>(0.1f),
                       2.5e-7));  // equal terms round alike: the worst case
    const Tensor columns = call<Sum>(x, dims({0}), false, OptionalType());
    CHECK(check::close(at(columns, 17), 3000 * static_cast<double>(0.1f), 1e-7));
    CHECK(std::abs(at(call<Var>(x, OptionalInts(), 1.0, false), 0)) < 1e-12);
  }
  // The same to the last bit for any number of threads.
  const Tensor w = filled(IntList(n, 2), DType::Float32, 1);
  for (int over = 0; over < 3; ++over) {
    const std::vector<int64_t> list = over == 2 ? std::vector<int64_t>() : std::vector<int64_t>{over};
    const OptionalInts d = dims(list);  // an empty list means all
    double bits[3][3];
    for (int threads = 1; threads <= 3; ++threads) {
      runtime::set_num_threads(threads);
      bits[threads - 1][0] = at(call<Sum>(w, d, false, OptionalType()), 0);
      bits[threads - 1][1] = at(call<Var>(w, d, 1.0, false), 0);
      bits[threads - 1][2] = at(call<LogSumExp>(w, d, false), 0);
    }
    for (int k = 0; k < 3; ++k) CHECK(bits[0][k] == bits[1][k] && bits[0][k] == bits[2][k]);
  }
  runtime::set_num_threads(1);
}

void reductions_differentiate() {
  const int64_t s3[] = {2, 3, 2};
  for (DType type : {DType::Float64, DType::Complex128}) {
    const Tensor x = filled(IntList(s3, 3), type, 2, 1.5, 0.2);
    for (const auto& d : {std::vector<int64_t>{1}, {0, 2}, {}}) {
      for (bool keepdim : {false, true}) {
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Sum>(t[0], dims(d), keepdim, OptionalType()); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Mean>(t[0], dims(d), keepdim, OptionalType()); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Prod>(t[0], dims(d), keepdim, OptionalType()); }, {x}));
        CHECK(
            derivatives_agree([&](const Tensors& t) { return call<Var>(t[0], dims(d), 1.0, keepdim); }, {x}));
        CHECK(
            derivatives_agree([&](const Tensors& t) { return call<Std>(t[0], dims(d), 0.0, keepdim); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) {
              auto r = call_all<VarMean>(t[0], dims(d), 1.0, keepdim);
              return call<Mul>(r[0], r[1]);
            },
            {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) {
              auto r = call_all<StdMean>(t[0], dims(d), 1.0, keepdim);
              return call<Mul>(r[0], r[1]);
            },
            {x}));
        for (double p : {1.0, 2.0, 3.0, 2.5, -1.0, 0.5, HUGE_VAL, -HUGE_VAL})
          if (!CHECK(derivatives_agree(
                  [&](const Tensors& t) {
                    return call<VectorNorm>(t[0], p, dims(d), keepdim, OptionalType());
                  },
                  {x}, 1e-5)))
            std::fprintf(stderr, "  norm of order %g\n", p);
        if (type == DType::Complex128) continue;
        CHECK(derivatives_agree([&](const Tensors& t) { return call<Amax>(t[0], dims(d), keepdim); }, {x}));
        CHECK(derivatives_agree([&](const Tensors& t) { return call<Amin>(t[0], dims(d), keepdim); }, {x}));
        CHECK(derivatives_agree([&](const Tensors& t) { return call<LogSumExp>(t[0], dims(d), keepdim); },
                                {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<NanSum>(t[0], dims(d), keepdim, OptionalType()); }, {x}));
      }
    }
    if (type == DType::Complex128) continue;
    for (int64_t d = 0; d < 3; ++d)
      for (bool keepdim : {false, true}) {
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Square>(call<MaxDim>(t[0], d, keepdim)); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Square>(call<MinDim>(t[0], d, keepdim)); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Square>(call<MedianDim>(t[0], d, keepdim)); }, {x}));
        CHECK(derivatives_agree(
            [&](const Tensors& t) { return call<Square>(call<KthValue>(t[0], int64_t{2}, d, keepdim)); },
            {x}));
      }
    CHECK(derivatives_agree([&](const Tensors& t) { return call<Square>(call<MaxAll>(t[0])); }, {x}));
    CHECK(derivatives_agree([&](const Tensors& t) { return call<Square>(call<MedianAll>(t[0])); }, {x}));
  }
}

void products_with_zeros() {
  const int64_t s[] = {3, 4};
  Tensor x = filled(IntList(s, 2), DType::Float64, 4, 2);
  x.data<double>()[1] = 0;                        // one zero in the first row,
  x.data<double>()[5] = x.data<double>()[6] = 0;  // two in the second
  auto f = [&](const Tensors& t) { return call<Prod>(t[0], dims({1}), false, OptionalType()); };
  CHECK(derivatives_agree(f, {x}));
  CHECK(derivatives_agree([&](const Tensors& t) { return call<Cumprod>(t[0], int64_t{1}, OptionalType()); },
                          {x}));
  CHECK(derivatives_agree([&](const Tensors& t) { return call<Cumprod>(t[0], int64_t{0}, OptionalType()); },
                          {x}));
}

void scans_differentiate() {
  const int64_t s[] = {3, 4, 2};
  for (DType type : {DType::Float64, DType::Complex128}) {
    const Tensor x = filled(IntList(s, 3), type, 6, 1.2, 0.4), y = filled(IntList(s, 3), type, 8);
    for (int64_t d = 0; d < 3; ++d) {
      CHECK(derivatives_agree([&](const Tensors& t) { return call<Cumsum>(t[0], d, OptionalType()); }, {x}));
      CHECK(derivatives_agree([&](const Tensors& t) { return call<Cumprod>(t[0], d, OptionalType()); }, {x}));
      for (bool reverse : {false, true})
        CHECK(derivatives_agree([&](const Tensors& t) { return call<LinearScan>(t[0], t[1], d, reverse); },
                                {x, y}));
      if (type == DType::Complex128) continue;
      CHECK(derivatives_agree([&](const Tensors& t) { return call<LogCumSumExp>(t[0], d); }, {x}));
      CHECK(derivatives_agree([&](const Tensors& t) { return call<Square>(call<Cummax>(t[0], d)); }, {x}));
      CHECK(derivatives_agree(
          [&](const Tensors& t) { return call<Square>(call<Sort>(t[0], d, true, false)); }, {x}));
      CHECK(derivatives_agree(
          [&](const Tensors& t) { return call<Square>(call<TopK>(t[0], int64_t{2}, d, true, true)); }, {x}));
    }
  }
}

void sorting() {
  for (int64_t n : {0, 1, 7, 64, 65, 300, 5000})
    for (DType type : {DType::Float32, DType::Float64, DType::Int64, DType::Int16, DType::Float16})
      for (bool descending : {false, true}) {
        Tensor x = empty(IntList(&n, 1), type);
        for (int64_t i = 0; i < n; ++i)
          write_element(x.bytes() + i * x.itemsize(), type,
                        Scalar(static_cast<int64_t>(i * 7919 % 1000 - 500)));
        const Tensors r = call_all<Sort>(x, int64_t{0}, descending, true);
        bool good = true;
        for (int64_t i = 0; i + 1 < n; ++i) {
          const double a = at(r[0], i), b = at(r[0], i + 1);
          good &= a == b ? at(r[1], i) < at(r[1], i + 1) : descending ? a > b : a < b;
        }
        for (int64_t i = 0; i < n; ++i) good &= at(x, static_cast<int64_t>(at(r[1], i))) == at(r[0], i);
        CHECK(good);
      }
}

void errors() {
  const int64_t s[] = {2, 3}, none[] = {0, 3};
  const Tensor x = filled(IntList(s, 2), DType::Float32, 1), e = empty(IntList(none, 2), DType::Float32);
  CHECK_THROWS(IndexError, call<Sum>(x, dims({2}), false, OptionalType()));
  CHECK_THROWS(Error, call<Sum>(x, dims({0, -2}), false, OptionalType()));
  CHECK_THROWS(IndexError, call<Amax>(e, dims({0}), false));
  CHECK_THROWS(IndexError, call<Amax>(e, OptionalInts(), false));
  CHECK_THROWS(IndexError, call<Argmax>(e, std::optional<int64_t>(), false));
  CHECK_THROWS(Error, call<MaxAll>(e));
  CHECK_THROWS(Error, call<Mean>(call<To>(x, DType::Int32), OptionalInts(), false, OptionalType()));
  CHECK_THROWS(Error, call<TopK>(x, int64_t{4}, int64_t{1}, true, true));
  CHECK(call<Amax>(e, dims({1}), false).numel() == 0);
  CHECK(at(call<Prod>(e, OptionalInts(), false, OptionalType()), 0) == 1);
  CHECK(std::isnan(at(call<Mean>(e, OptionalInts(), false, OptionalType()), 0)));
  CHECK(at(call<LogSumExp>(e, dims({0}), false), 1) == -HUGE_VAL);
  CHECK(at(call<All>(e, OptionalInts(), false), 0) == 1 && at(call<Any>(e, OptionalInts(), false), 0) == 0);
}

}  // namespace

int main() {
  layouts_and_types();
  accuracy();
  reductions_differentiate();
  products_with_zeros();
  scans_differentiate();
  sorting();
  errors();
  return check::result();
}
