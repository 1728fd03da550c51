// Tests of core/kernels/launch.h: what a launch comes to on each device, and which routines guarded memory
// finds.
#include "check.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/random.h"

using namespace adjoint;

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
/// Writes where it was first called to: a pointer that it keeps.
void write_where_it_was(const Tensor& out) {
  static double* const at = out.data<double>();
  *at += 1;
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

void test_in_guarded_memory() {
  const DeviceScope scope(Device::Guarded);
  const Tensor t = empty(kSizes, DType::Float64);
  int before = calls;
  on<&write_number>(Out(t), 3.0);
  CHECK(counted(before) == 2 && at(t, 4) == 3);
  // What is written in place is written once, and lists are.
  const Tensor list[] = {t, copy_of(t)};
  on<&double_all>(Outs(list), copy_of(t));
  CHECK(at(t, 0) == 9 && at(list[1], 0) == 9);
  on<&write_those_defined>(Out(Tensor()), Out(t));
  CHECK(at(t, 0) == 0);
  CHECK(ask<&first_of>("test", t) == 0 && check<&first_of>(t) == 0);
  // The same numbers are drawn for both, and once.
  runtime::Generator one(7, runtime::Generator::Kind::Counter), other(7, runtime::Generator::Kind::Counter);
  on<&kernels::draw_normal>(Out(t), 0.0, 1.0, &one);
  const DeviceScope here(Device::CPU);
  const Tensor expected = empty(kSizes, DType::Float64);
  on<&kernels::draw_normal>(Out(expected), 0.0, 1.0, &other);
  for (int64_t i = 0; i < 5; ++i) CHECK(at(t, i) == at(expected, i));
  CHECK(one.state() == other.state());
}

void test_a_pointer_that_was_kept_is_found() {
  const DeviceScope scope(Device::Guarded);
  const Tensor t = empty(kSizes, DType::Float64);
  on<&write_number>(Out(t), 0.0);
  CHECK_THROWS(Error, on<&write_where_it_was>(Out(t)));
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
  // Nothing was done: zeros, a copy, a number, a check, and the number's own memory.
  CHECK(counted(before) == 0 && seen.routines.size() == 5);
  // What was shown can be done elsewhere.
  const DeviceScope here(Device::CPU);
  const Tensor result = empty(kSizes, DType::Float64);
  const double number = 4;
  const void* const arguments[] = {&result, &number};
  CHECK(!seen.routines[2]->call(arguments) && at(result, 4) == 4);
  CHECK(seen.routines[2]->kinds[0] == launch::Kind::Out && seen.routines[2]->sizes[1] == sizeof(double));
  const void* const looked[] = {&result};
  CHECK(seen.routines[3]->call(looked));  // finds something now
}

}  // namespace

int main() {
  test_on_the_host();
  test_without_elements();
  test_in_guarded_memory();
  test_a_pointer_that_was_kept_is_found();
  test_kept_launches();
  return check::result();
}
