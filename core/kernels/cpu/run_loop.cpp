#include "kernels/run_loop.h"

#include <cstring>

#include "kernels/chain.h"
#include "kernels/copy.h"
#include "kernels/cpu/copying.h"
#include "kernels/cpu/variants.h"
#include "kernels/gathered.h"
#include "kernels/launch.h"
#include "kernels/walk.h"

namespace adjoint {

namespace {

constexpr int64_t kBlock = Chain::kBlock;

/// Rows shorter than this are gathered into blocks: a call of the loop costs as much as some tens of
/// elements.
constexpr int64_t kShortRow = 48;

/// Strides of elements that lie one behind the other in the walk's order.
bool dense_along(const Walk& walk, int operand, int64_t item) {
  for (size_t i = walk.shape().size(); i-- > 0; item *= walk.shape()[i])
    if (walk.stride(operand, i) != item) return false;
  return true;
}

/// `rows` rows of n elements each, one behind the other.
template <class Word>
void gather(char* to, const char* from, int64_t rows, int64_t across, int64_t n, int64_t along) {
  auto* out = reinterpret_cast<Word*>(to);
  for (int64_t row = 0; row < rows; ++row, from += across) {
    const char* at = from;
    for (int64_t i = 0; i < n; ++i, at += along) std::memcpy(out++, at, sizeof(Word));
  }
}
void gather(char* to, const char* from, int64_t item, int64_t rows, int64_t across, int64_t n,
            int64_t along) {
  visit_size(item, [&]<class Word>(TypeTag<Word>) { gather<Word>(to, from, rows, across, n, along); });
}

/// Short rows of operands of the loop's own types, with a result that lies in the walk's order: whole blocks
/// at a time. False where they are not that.
bool run_short_rows(const LoopCall& call, const Walk& walk, const int* slots, int n_inputs, DType out_type) {
  const int64_t n = walk.shape().back(), rows = walk.numel() / n, item = itemsize(out_type);
  if (n >= kShortRow || rows < 4 || out_type != call.out_type || !dense_along(walk, 0, item)) return false;
  bool dense[5];
  int64_t items[5];
  for (int k = 0; k < n_inputs; ++k) {
    const DType have = call.inputs[slots[k]]->dtype();
    if (have != call.types[slots[k]]) return false;
    dense[k] = dense_along(walk, k + 1, items[k] = itemsize(have));
  }
  const int64_t per_block = kBlock / n;
  const size_t inner = walk.shape().size() - 1;
  runtime::parallel_for(0, (rows - 1) / per_block + 1, std::max<int64_t>(1, StraightCall::kSerial / kBlock),
                        [&](int64_t first, int64_t last) {
                          alignas(64) char blocks[5][kBlock * sizeof(Complex<double>)];
                          for (int64_t block = first; block < last; ++block) {
                            const int64_t begin = block * per_block, end = std::min(rows, begin + per_block);
                            const void* in[5] = {};
                            Walk::Row at(walk, begin);
                            char* const to = at.pointer(0);
                            for (int k = 0; k < n_inputs; ++k)
                              in[slots[k]] = dense[k] ? at.pointer(k + 1) : blocks[k];
                            for (int64_t row = begin, taken; row < end; row += taken, at.skip(taken)) {
                              taken = std::min(end - row, at.left());
                              for (int k = 0; k < n_inputs; ++k)
                                if (!dense[k])
                                  gather(blocks[k] + (row - begin) * n * items[k], at.pointer(k + 1),
                                         items[k], taken, walk.stride(k + 1, inner - 1), n,
                                         walk.stride(k + 1, inner));
                            }
                            call.loop(to, in, (end - begin) * n, call.parameters);
                          }
                        });
  return true;
}

/// Operands that lie along the rows of the result's columns, such as a transpose: squares of them are turned
/// in the nearest cache, and the loop runs over rows. False where types differ or the result lies so.
bool run_turned(const LoopCall& call, const Walk& walk, const int* slots, int n_inputs, DType out_type) {
  constexpr int64_t kRows = 32, kColumns = 128;
  const size_t inner = walk.shape().size() - 1;
  const int64_t item = itemsize(out_type);
  if (inner == 0 || !walk.crosses() || out_type != call.out_type || walk.stride(0, inner) != item)
    return false;
  int64_t items[5];
  for (int k = 0; k < n_inputs; ++k) {
    if (call.inputs[slots[k]]->dtype() != call.types[slots[k]]) return false;
    items[k] = itemsize(call.types[slots[k]]);
    if (items[k] > 8) return false;
  }
  const auto plane = best_variant<PlaneTable>().plane;
  const int64_t n = walk.shape()[inner], m = walk.shape()[inner - 1], strips = (m - 1) / kRows + 1;
  runtime::parallel_for(
      0, walk.numel() / (n * m) * strips, std::max<int64_t>(1, StraightCall::kSerial / (n * kRows)),
      [&](int64_t begin, int64_t end) {
        alignas(64) char blocks[3][kRows * kColumns * 8];
        alignas(64) char repeated[5][kColumns * 8 + 64];
        for (int64_t strip = begin; strip < end; ++strip) {
          const int64_t first = strip % strips * kRows, rows = std::min(kRows, m - first);
          const Walk::Row at(walk, strip / strips * m + first);
          for (int64_t column = 0; column < n; column += kColumns) {
            const int64_t width = std::min(kColumns, n - column);
            const char* from[5];
            int64_t down[5];
            for (int k = 0, turned = 0; k < n_inputs; ++k) {
              const int64_t across = walk.stride(k + 1, inner);
              from[k] = at.pointer(k + 1) + column * across;
              down[k] = walk.stride(k + 1, inner - 1);
              if (across == items[k] || across == 0) continue;
              char* const to = blocks[turned++];
              plane(to, kColumns * items[k], items[k], from[k], down[k], across, rows, width, items[k]);
              from[k] = to;
              down[k] = kColumns * items[k];
            }
            for (int64_t row = 0; row < rows; ++row) {
              const void* in[5] = {};
              for (int k = 0; k < n_inputs; ++k) {
                const bool constant = walk.stride(k + 1, inner) == 0;
                if (constant && (row == 0 || down[k]))
                  repeat_value(repeated[k], from[k] + row * down[k], items[k], width);
                in[slots[k]] = constant ? repeated[k] : from[k] + row * down[k];
              }
              call.loop(at.pointer(0) + row * walk.stride(0, inner - 1) + column * item, in, width,
                        call.parameters);
            }
          }
        }
      });
  return true;
}

}  // namespace

[[gnu::hot]] void repeat_value(char* to, const void* value, int64_t item, int64_t n) {
  if (n * item >= 128) return best_variant<PlaneTable>().repeat(to, value, item, n);
  typedef uint64_t Pattern __attribute__((vector_size(16), aligned(1), may_alias));
  alignas(16) char repeated[16];
  for (int64_t at = 0; at < 16; at += item) std::memcpy(repeated + at, value, static_cast<size_t>(item));
  const Pattern pattern = *reinterpret_cast<const Pattern*>(repeated);
  for (char* const end = to + n * item; to < end; to += 16) *reinterpret_cast<Pattern*>(to) = pattern;
}

[[gnu::hot]] void StraightCall::run_long(void* out, int64_t n) const {
  // One block needs no chain, which takes 7 of the 115 ns that a call with a number takes.
  if (n <= Chain::kBlock) {
    alignas(64) char repeated[kOperands][Chain::kBlock * sizeof(Complex<double>)];
    const void* in[kOperands];
    for (int k = 0; k < kOperands; ++k) {
      in[k] = data[k];
      if (constant >> k & 1) repeat_value(repeated[k], in[k], item[k], n), in[k] = repeated[k];
    }
    return loop(out, in, n, parameters);
  }
  Chain chain;
  Chain::Link& link = chain.then(loop, parameters, {static_cast<char*>(out), out_item});
  for (int k = 0; k < kOperands; ++k)
    link.in[k] = constant >> k & 1 ? chain.number(data[k], item[k], n)
                                   : Chain::Place{static_cast<char*>(const_cast<void*>(data[k])), item[k]};
  runtime::parallel_for(0, n, kSerial, [&](int64_t begin, int64_t end) { chain.run(begin, end); });
}

namespace {
/// A call as a launch has it: its operands are a list, its numbers a copy.
struct KeptLoop {
  LoopCall call;
  double parameters[8];
};
void run_kept(const Tensor& out, TensorList operands, const KeptLoop& kept) {
  LoopCall call = kept.call;
  call.parameters = kept.parameters;
  for (int k = 0; k < call.operands; ++k) call.inputs[k] = &operands[static_cast<size_t>(k)];
  run_loop(call, out);
}
[[gnu::cold]] void launch_loop(const LoopCall& call, const Tensor& out) {
  KeptLoop kept{call, {}};
  Tensor operands[5];
  for (int k = 0; k < call.operands; ++k) {
    if (call.inputs[k]) operands[k] = *call.inputs[k];
    kept.call.inputs[k] = nullptr;
  }
  std::copy_n(call.parameters, call.numbers, kept.parameters);
  on<&run_kept>(Out(out), TensorList(operands, static_cast<size_t>(call.operands)), kept);
}
}  // namespace

[[gnu::hot]] void run_loop(const LoopCall& call, const Tensor& out) {
  if (out->is(TensorImpl::kElsewhere)) [[unlikely]]
    return launch_loop(call, out);
  if (out.numel() == 0) return;
  if (out.is_contiguous() && out.dtype() == call.out_type) {
    StraightCall straight{call.loop, call.parameters, itemsize(call.out_type)};
    bool fits = true;
    for (int k = 0; k < call.operands && fits; ++k)
      if (call.inputs[k] && call.inputs[k]->defined())
        fits = call.inputs[k]->dtype() == call.types[k] && straight.add(k, *call.inputs[k], out.numel());
    if (fits) return straight.run(out.bytes(), out.numel());
  }
  Walk walk(out.sizes());
  walk.add(out);
  int slots[5];
  int n_inputs = 0;
  for (int k = 0; k < call.operands; ++k)
    if (call.inputs[k] && call.inputs[k]->defined()) {
      slots[n_inputs++] = k;
      walk.add(*call.inputs[k]);
    }
  walk.plan();
  const DType out_type = out.dtype();
  if (run_short_rows(call, walk, slots, n_inputs, out_type)) return;
  if (n_inputs <= 3 && run_turned(call, walk, slots, n_inputs, out_type)) return;
  // All runs lie alike: what the loop takes where it is, and what is one number throughout a run.
  const size_t inner = walk.shape().size() - 1;
  const bool direct_out = out_type == call.out_type && walk.stride(0, inner) == itemsize(out_type);
  bool direct[5], constant[5], direct_all = direct_out;
  for (int k = 0; k < n_inputs; ++k) {
    const DType have = call.inputs[slots[k]]->dtype();
    const int64_t stride = walk.stride(k + 1, inner);
    direct_all &= direct[k] = have == call.types[slots[k]] && stride == itemsize(have);
    constant[k] = stride == 0;
  }
  walk.run(StraightCall::kSerial, [&](char* const* p, const int64_t* strides, int64_t n) {
    const void* in[5] = {};
    for (int k = 0; k < n_inputs; ++k) in[slots[k]] = p[k + 1];
    if (direct_all) return call.loop(p[0], in, n, call.parameters);
    // A block per operand that cannot be used where it lies.
    alignas(64) char blocks[6][kBlock * sizeof(Complex<double>)];
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = std::min(kBlock, n - at);
      for (int k = 0; k < n_inputs; ++k) {
        const int s = slots[k];
        const DType have = call.inputs[s]->dtype(), want = call.types[s];
        const char* from = p[k + 1] + at * strides[k + 1];
        if (direct[k]) {
          in[s] = from;
        } else if (!constant[k] || at == 0) {
          if (constant[k] && have == want)
            repeat_value(blocks[k], from, itemsize(want), m);
          else
            convert_strided(blocks[k], want, itemsize(want), from, have, strides[k + 1], m);
          in[s] = blocks[k];
        }
      }
      char* to = p[0] + at * strides[0];
      call.loop(direct_out ? to : blocks[5], in, m, call.parameters);
      if (!direct_out)
        convert_strided(to, out_type, strides[0], blocks[5], call.out_type, itemsize(call.out_type), m);
    }
  });
}

bool plan_gathered(const LoopCall& call, const Tensor& out, GatheredCall& g) {
  const int64_t n = out.numel();
  if (n < 1 || n > GatheredCall::kMost || out.dtype() != call.out_type || !out.is_contiguous()) return false;
  Walk walk(out.sizes());
  walk.add(out);
  for (int k = 0; k < call.operands; ++k)
    if (call.inputs[k] && call.inputs[k]->defined()) {
      if (call.inputs[k]->dtype() != call.types[k]) return false;
      walk.add(*call.inputs[k]);
    }
  walk.plan();
  const int64_t inner = walk.shape().back();
  if (!dense_along(walk, 0, out.itemsize()) || (walk.shape().size() > 1 && walk.crosses())) return false;
  g.loop = call.loop;
  g.parameters = call.parameters;
  g.n = n;
  g.out_item = out.itemsize();
  g.step = inner < kShortRow && n / inner >= 4 ? n : inner;  // as `run_short_rows`
  for (int k = 0, operand = 1; k < call.operands; ++k) {
    if (!call.inputs[k] || !call.inputs[k]->defined()) continue;
    g.item[k] = call.inputs[k]->itemsize();
    if (!dense_along(walk, operand, g.item[k])) {
      Walk::Row at(walk, 0);
      const char* const begin = at.pointer(operand);
      for (int64_t row = 0; row < n / inner; ++row, at.next())
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t offset =
              at.pointer(operand) - begin + i * walk.stride(operand, walk.shape().size() - 1);
          if (offset != static_cast<int32_t>(offset)) return false;
          g.offsets[k].push_back(static_cast<int32_t>(offset));
        }
    }
    ++operand;
  }
  return true;
}

void GatheredCall::run() const {
  alignas(64) char side_by_side[StraightCall::kOperands][kMost * sizeof(Complex<double>)];
  const void* in[StraightCall::kOperands];
  for (int k = 0; k < StraightCall::kOperands; ++k) {
    in[k] = data[k];
    if (offsets[k].empty()) continue;
    const char* const from = static_cast<const char*>(data[k]);
    char* to = side_by_side[k];
    in[k] = to;
    const auto copy = [&]<class Word>(Word) {
      for (const int32_t offset : offsets[k]) {
        std::memcpy(to, from + offset, sizeof(Word));
        to += sizeof(Word);
      }
    };
    item[k] == 4   ? copy(uint32_t())
    : item[k] == 8 ? copy(uint64_t())
    : item[k] == 1 ? copy(uint8_t())
    : item[k] == 2 ? copy(uint16_t())
                   : copy(Complex<double>());
  }
  if (step == n) return loop(out, in, n, parameters);
  for (int64_t at = 0; at < n; at += step) {
    loop(static_cast<char*>(out) + at * out_item, in, step, parameters);
    for (int k = 0; k < StraightCall::kOperands; ++k)
      if (in[k]) in[k] = static_cast<const char*>(in[k]) + step * item[k];
  }
}

}  // namespace adjoint
