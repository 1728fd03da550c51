#include "kernels/launch.h"

#include <cstring>

#include "for_size.h"
#include "kernels/slices.h"
#include "runtime/random.h"

namespace adjoint::launch {

TensorList Others::in_place_of(TensorList list) const {
  if (!copies) return list;
  const Tensor* copy = copies;
  for (const TensorList& l : given) {
    if (l.data() == list.data()) return {copy, l.size()};
    copy += l.size();
  }
  return list;
}

void elsewhere(std::span<const TensorList> written, runtime::Generator* generator,
               runtime::FunctionRef<void(const Others&)> routine) {
  const Access access(written[0][0]);
  if (!access) return;
  const Others same{written, nullptr};
  Tensors copies;
  for (const TensorList& list : written)
    for (const Tensor& t : list) {
      if (!t.defined()) {
        copies.emplace_back();
        continue;
      }
      if (!without_gaps(t)) return routine(same);  // a copy would have other bytes between its elements
      copies.push_back(empty_as(t, t.dtype()));
      copy_into(copies.back(), t);
    }
  const auto before = generator ? generator->state() : runtime::Generator::State();
  routine({written, copies.data()});
  if (generator) generator->set_state(before);
  routine(same);
  const Tensor* copy = copies.data();
  for (const TensorList& list : written)
    for (const Tensor& t : list) {
      const Tensor& other = *copy++;
      if (t.defined() &&
          std::memcmp(t.bytes(), other.bytes(), static_cast<size_t>(t.numel() * t.itemsize())) != 0)
        fail("a routine wrote something else when it was called again with other memory (kernels/launch.h)");
    }
}

}  // namespace adjoint::launch
