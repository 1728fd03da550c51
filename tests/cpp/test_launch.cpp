// Tests of core/kernels/launch.h: what a launch comes to on each device. "far" is a device of its own
// (tests/far/far.cpp), whose memory the host cannot read.
#include "check.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/random.h"

using namespace adjoint;

extern "C" const runtime::DeviceFunctions adjoint_device;

namespace {

const int64_t kSizes[] = {5};
int calls = 0;

void write_number(const Tensor& out, double number) {
  ++calls;
  for (int64_t i = 0; i < out.numel(); ++i) out.data<double>()[i] = number;
}
void double_all(TensorList list, const Tensor& more) {
  ++calls;
  for (const Tensor& t : list)
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<double>()[i] = 2 * t.data<double>()[i] + more.data<double>()[i];
}
void write_those_defined(const Tensor& first, const Tensor& second) {
  ++calls;
  for (const Tensor& t : {first, second})
    if (t.defined()) std::memset(t.bytes(), 0, static_cast<size_t>(t.numel() * t.itemsize()));
}
/// Reads a neighbour that it is not given, but that lies in the same memory.
void move_along(const Tensor& out, const Tensor& in) {
  ++calls;
  std::memmove(out.bytes(), in.bytes(), static_cast<size_t>(in.numel() * in.itemsize()));
}
struct Pair {
  Tensor first, second;
  template <class F>
  void each_tensor(const F& f) {
    f(first);
    f(second);
  }
};
std::tuple<Tensor, Tensor> both_of(const Tensor& t, const Pair& pair) {
  ++calls;
  const double sum = t.data<double>()[0] + pair.first.data<double>()[0];
  return {scalar_tensor(Scalar(sum), DType::Float64), copy_of(pair.second)};
}
void write_product(const Tensor& out, const Pair& pair, double number) {
  ++calls;
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<double>()[i] = pair.first.data<double>()[i] * pair.second.data<double>()[i] * number;
}
double first_of(const Tensor& t) {
  ++calls;
  return t.data<double>()[0];
}

double at(const Tensor& t, int64_t i) {
  return convert<double>(item(alias(t, {}, {}, t.offset() + i)).as_double());
}

int counted(int before) { return calls - before; }

void test_on_the_host() {
  const Tensor t = empty(kSizes, DType::Float64), none;
  int before = calls;
  on<&write_number>(Out(t), 3.0);
  CHECK(counted(before) == 1 && at(t, 4) == 3);
  const Tensor list[] = {t, copy_of(t)};
  on<&double_all>(Outs(list), copy_of(t));
  CHECK(at(t, 0) == 9 && at(list[1], 0) == 9);
  on<&write_those_defined>(Out(none), Out(t));
  CHECK(at(t, 0) == 0);
  CHECK(ask<&first_of>("test", t) == 0 && check<&first_of>(t) == 0);
}

void test_without_elements() {
  const DeviceScope scope(Device::Meta);
  const Tensor t = empty(kSizes, DType::Float64);
  const int before = calls;
  on<&write_number>(Out(t), 3.0);
  on<&write_those_defined>(Out(Tensor()), Out(t));
  CHECK(check<&first_of>(t) == 0);
  CHECK_THROWS(NotImplemented, ask<&first_of>("test", t));
  CHECK(counted(before) == 0);
}

void test_elsewhere(Device far) {
  const DeviceScope scope(far);
  const Tensor t = empty(kSizes, DType::Float64);
  int before = calls;
  const int64_t launches = launches_on_host();
  on<&write_number>(Out(t), 3.0);
  CHECK(counted(before) == 1 && launches_on_host() == launches + 1 && at(t, 4) == 3);
  const Tensor list[] = {t, copy_of(t)};
  on<&double_all>(Outs(list), copy_of(t));
  CHECK(at(t, 0) == 9 && at(list[1], 0) == 9);
  on<&write_those_defined>(Out(Tensor()), Out(t));
  CHECK(at(t, 0) == 0);
  CHECK(ask<&first_of>("test", t) == 0 && check<&first_of>(t) == 0);
  // What is found comes back to the device.
  on<&write_number>(Out(t), 2.0);
  const auto [sum, copy] = ask<&both_of>("test", t, Pair{t, t});
  CHECK(item(sum).as_double() == 4 && device_of(sum) == far && device_of(copy) == far && at(copy, 3) == 2);
  // The same numbers are drawn as here.
  runtime::Generator one(7, runtime::Generator::Kind::Counter), other(7, runtime::Generator::Kind::Counter);
  on<&kernels::draw_normal>(Out(t), 0.0, 1.0, &one);
  const DeviceScope here(Device::CPU);
  const Tensor expected = empty(kSizes, DType::Float64);
  on<&kernels::draw_normal>(Out(expected), 0.0, 1.0, &other);
  for (int64_t i = 0; i < 5; ++i) CHECK(at(t, i) == at(expected, i));
  CHECK(one.state() == other.state());
}

void test_views_elsewhere(Device far) {
  const DeviceScope scope(far);
  const Tensor all = empty(kSizes, DType::Float64);
  on<&write_number>(Out(all), 1.0);
  const int64_t two[] = {2}, step[] = {2}, four[] = {4}, one[] = {1};
  // Every second element: those between stay.
  copy_into(alias(all, two, step, 1), scalar_tensor(Scalar(7.0), DType::Float64));
  for (int64_t i = 0; i < 5; ++i) CHECK(at(all, i) == (i == 1 || i == 3 ? 7 : 1));
  // Overlapping operands overlap on the host, too.
  on<&move_along>(Out(alias(all, four, one, 1)), alias(all, four, one, 0));
  const double wanted[] = {1, 1, 7, 1, 7};
  for (int64_t i = 0; i < 5; ++i) CHECK(at(all, i) == wanted[i]);
}

void test_devices(unsigned kind) {
  const Device first = device_of_kind(kind, 0), second = device_of_kind(kind, 1);
  CHECK(name_of(first) == "far:0" && name_of(second) == "far:1" && name_of(Device::CPU) == "cpu");
  CHECK(is_device(static_cast<int64_t>(second)) && !is_device(static_cast<int64_t>(device_of_kind(kind, 2))));
  CHECK(runtime::register_device(adjoint_device) == kind);
  DeviceOfCall where("test");
  const auto on_device = [](Device d) {
    const DeviceScope scope(d);
    return zeros(kSizes, DType::Float64);
  };
  where.add(on_device(first));
  CHECK_THROWS(Error, where.add(on_device(second)));
  const Tensor copy = on_device(second);
  copy_into(copy, on_device(first));
  CHECK(at(copy, 2) == 0);
  runtime::synchronise(first);
}

struct Seen : launch::Recorder {
  std::vector<const launch::Routine*> routines;
  void launched(const launch::Routine& routine, const void* const*) override { routines.push_back(&routine); }
};

void test_kept_launches() {
  const DeviceScope scope(kRecorded);
  Seen seen;
  const Tensor t = zeros(kSizes, DType::Float64), other = copy_of(t);
  const int before = calls;
  on<&write_number>(Out(t), 3.0);
  CHECK(check<&first_of>(other) == 0);
  CHECK_THROWS(NotLaunched, ask<&first_of>("test", t));
  CHECK_THROWS(NotLaunched, item(scalar_tensor(Scalar(1), DType::Float64)));
  on<&write_product>(Out(t), Pair{other, t}, 2.0);
  // Nothing was done: zeros, a copy, a number, a check, the number's own memory, a product.
  CHECK(counted(before) == 0 && seen.routines.size() == 6);
  // What was shown can be done elsewhere.
  const DeviceScope here(Device::CPU);
  const Tensor result = empty(kSizes, DType::Float64);
  const double number = 4;
  const void* const arguments[] = {&result, &number};
  CHECK(!seen.routines[2]->call(arguments) && at(result, 4) == 4);
  const auto& taken = seen.routines[2]->arguments;
  CHECK(taken[0].kind == launch::Kind::Out && taken[1].size == sizeof(double));
  const launch::Found nowhere{nullptr};
  const void* const looked[] = {&nowhere, &result};
  CHECK(seen.routines[3]->call(looked));  // finds something now
  // What is more than bytes is copied, and its tensors replaced.
  const launch::Routine& product = *seen.routines[5];
  const launch::Keeping* keeping = product.arguments[1].keeping;
  const Pair pair{copy_of(result), result};
  void* const kept = keeping->copy(&pair);
  keeping->each_tensor(kept, [&](Tensor& each) { each = pair.first; });
  const void* const factors[] = {&result, kept, &number};
  product.call(factors);
  keeping->release(kept);
  CHECK(at(result, 4) == 64 && at(pair.first, 4) == 4);
}

}  // namespace

int main() {
  test_on_the_host();
  test_without_elements();
  test_kept_launches();
  const unsigned kind = runtime::register_device(adjoint_device);
  test_devices(kind);
  test_elsewhere(device_of_kind(kind, 1));
  test_views_elsewhere(device_of_kind(kind, 0));
  return check::result();
}
