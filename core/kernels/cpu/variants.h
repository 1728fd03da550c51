// Kernels that are compiled once per instruction set, and the choice among them.
//
// The build compiles every file core/kernels/cpu/*.isa.cpp once per set, with ADJOINT_ISA and ADJOINT_LEVEL
// defined. Such a file fills a table of function pointers, a plain struct declared in an ordinary header, and
// registers it:
//
//     const SomeTable table{&some_function, …};
//     [[gnu::init_priority(200)]] RegisterVariant registered{variant_list<SomeTable>, ADJOINT_LEVEL, &table};
//
// and its callers write `best_variant<SomeTable>().function(…)`. All code of such a file lives in
// `namespace adjoint::inline ADJOINT_ISA` and calls only what is forced inline (math::) or lives there too:
// an inline function that two sets shared could be the newer set's copy, and stop an older processor.
#pragma once

namespace adjoint {

/// The best table registered so far that this processor can run, and the best without the widest registers.
struct VariantList {
  const void *table = nullptr, *narrow = nullptr;
  int level = -1, narrow_level = -1;
};
template <class Table>
inline constinit VariantList variant_list{};

struct RegisterVariant {
  RegisterVariant(VariantList& list, int level, const void* table);
};

template <class Table>
const Table& best_variant() {
  return *static_cast<const Table*>(variant_list<Table>.table);
}
/// The same by registers of 256 bits at most, for what fills no wider ones.
template <class Table>
const Table& narrow_variant() {
  return *static_cast<const Table*>(variant_list<Table>.narrow);
}

}  // namespace adjoint
