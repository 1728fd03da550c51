// A program for several threads at once: `Pool` of replay/program.h.
#include "replay/program.h"
#include "runtime/interrupt.h"

namespace adjoint::replay {

std::unique_ptr<Program> Pool::make() { return std::make_unique<Program>(*trace_, steps_, ends_); }

void Pool::keep(std::unique_ptr<Program> one) {
  const std::lock_guard lock(lock_);
  const Program* none = nullptr;
  first_.compare_exchange_strong(none, one.get());
  idle_.push_back(std::move(one));
}

void Pool::plan() {
  if (!is_planned()) keep(make());
}

void Pool::time(bool on) {
  const std::lock_guard lock(lock_);
  timed_ = on;
  if (!on) times_ = {};
}

void Pool::took(const Program::Times& times) {
  const std::lock_guard lock(lock_);
  if (timed_) times_.add(times);
}

Program::Times Pool::times() const {
  const std::lock_guard lock(lock_);
  return times_;
}

Picture Pool::picture() const {
  Picture picture;
  const Program again(*trace_, steps_, ends_, &picture);
  return picture;
}

Program::Outcome Pool::run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           std::vector<Scalar>& numbers, const Program::Drop* drop) {
  // Of a pass: what the program's own rules make follows these as they are when it runs.
  if (default_dtype() != default_dtype_ || thread_state.default_device != Device::CPU ||
      thread_state.inference != inference_)
    return Program::Outcome::Undone;
  std::unique_ptr<Program> mine;
  bool timed;
  {
    const std::lock_guard lock(lock_);
    timed = timed_;
    if (!idle_.empty()) {
      mine = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!mine) {
    if (hopeless_) return Program::Outcome::Undone;
    try {
      mine = make();
    } catch (const runtime::Interrupted&) {
      throw;
    } catch (...) {
      hopeless_ = true;
      return Program::Outcome::Undone;
    }
  }
  if (timed) [[unlikely]]
    mine->times_ = std::make_unique<Program::Times>();
  struct Back {
    Pool& pool;
    std::unique_ptr<Program>& mine;
    ~Back() {
      if (const auto times = std::exchange(mine->times_, nullptr); times && times->runs) pool.took(*times);
      pool.keep(std::move(mine));
    }
  } back{*this, mine};
  return mine->run(inputs, outputs, numbers, drop);
}

}  // namespace adjoint::replay
