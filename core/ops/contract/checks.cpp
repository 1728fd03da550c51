// What element-wise operators refuse by the values or the kinds of their inputs, before anything is written.
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/values.h"
#include "ops/complex.h"
#include "ops/division.h"
#include "ops/rounding.h"
#include "ops/selection.h"

namespace adjoint::inline ADJOINT_ISA {

void refuse_zero_divisor(const char* op, const Tensor* in, DType type) {
  const Tensor& divisor = in[1];
  if (!is_integral(type) || in[0].numel() == 0) return;  // nothing is divided
  const Tensor d = divisor.dtype() == type ? dense(divisor) : copy_of(divisor, type);
  if (const int64_t i = check<&kernels::first_zero>(d))
    fail("ZeroDivisionError: ", op, "(): integer division or modulo by zero (element ", i - 1,
         " of the divisor is 0)");
}

void refuse_bool(const char* what, const Tensor* in, int count) {
  for (int i = 0; i < count; ++i)
    if (in[i].dtype() == DType::Bool && !in[i].is_wrapped())
      fail(what,
           " is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator "
           "instead.");
}

void refuse_mixed_parts(const char* op, const Tensor* in) {
  if (in[0].dtype() == in[1].dtype() || in[0].is_wrapped() || in[1].is_wrapped()) return;
  if (!is_floating(in[0].dtype()) || !is_floating(in[1].dtype()))
    fail(op, "(): Expected both inputs to be Half, Float or Double tensors but got ",
         type_name_of(in[0].dtype()), " and ", type_name_of(in[1].dtype()));
  fail(op, "(): Expected object of scalar type ", type_name_of(in[0].dtype()), " but got scalar type ",
       type_name_of(in[1].dtype()), " for second argument");
}

void refuse_mixed_ends(const char* op, const Tensor* in) {
  const DType type = in[0].dtype();
  const auto refuse = [&](const char* which, const Tensor& t) {
    fail(op, "(): expected dtype ", name_of(type), " for `", which, "` but got dtype ", name_of(t.dtype()),
         "; convert it with .to(", name_of(type), ")");
  };
  if (in[1].dtype() != type && !in[1].is_wrapped()) refuse("end", in[1]);
  // A weight without dimensions is a number.
  if (in[2].dtype() != type && !in[2].is_wrapped() && in[2].dim() != 0) refuse("weight", in[2]);
}

void refuse_mixed_steps(const char* op, const Tensor* in) {
  if (in[0].dtype() != in[1].dtype() && !in[0].is_wrapped() && !in[1].is_wrapped())
    fail(op, " is not yet implemented for tensors with different dtypes: got ", name_of(in[0].dtype()),
         " and ", name_of(in[1].dtype()), "; convert one of them with .to()");
}

void refuse_fill(const char* op, const Tensor& value, DType type) {
  if (value.dim() != 0)
    fail(op, "() only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
         " dimension(s).");
  if (!is_meta(value)) refuse_overflow(item(value), type, op);
}

}  // namespace adjoint::inline ADJOINT_ISA
