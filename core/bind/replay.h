// What the sources of replaying in Python share. See replay.cpp.
#pragma once

#include "bind/caster.h"
#include "replay/cut.h"

namespace adjoint::bind {

/// A program asks for, or changes, what no replay would notice: it is not recorded.
void tell_recorders(const char* what);
/// It asks what this node is, what it leads to or what it keeps: a graph that existed before the call is not
/// compared.
void graph_in_recorders(const Node& node);
/// A hook is set.
void hook_in_recorders();
/// The hook of this number runs.
void hook_runs_in_recorders(uint64_t number, PyObject* function);
/// How many hooks were set so far: their numbers go on from one.
extern std::atomic<uint64_t> hooks_set;
/// A hook that Python set: its number, where it stands among what the graph calls, and what it calls.
struct HookOfPython {
  uint64_t number;
  int64_t place;
  std::shared_ptr<PyObject> function;
};
/// The hooks of a tensor, and of the node that its gradient comes to.
std::vector<HookOfPython> python_hooks(const Tensor& t);
/// A generator is drawn from that goes on from the state of another: no replay follows what it draws.
void fork_in_recorders();

/// For the collector: what the node of a replayed call holds of Python, which leads to the call's arguments.
int visit_again(const Node& node, uint32_t output_nr, visitproc visit, void* arg);

/// Whether a run of this thread is watched: which code runs in it, and what it calls.
bool is_watched();
/// For its scope nothing of it is.
class Unwatched {
 public:
  Unwatched();
  ~Unwatched();
  Unwatched(const Unwatched&) = delete;
};
/// The rules of a node whose operator a program declared, as functions of Python.
std::vector<nanobind::object> rules_of_program(const Node& node);

/// What runs again in Python, where a pass asks for what was not recorded: `call` is a tuple of a function
/// and its arguments after the first. With inputs as that, it gives the results that need gradients; with
/// None, it says whether the recorded passes are right.
std::shared_ptr<const replay::Again> again_in_python(nanobind::handle call, size_t shares);

/// A recording that runs again, as Python holds it.
struct Replayed {
  std::shared_ptr<replay::Replay> replay;
};

/// Why calls cannot be followed or replaced as this thread is; null where they can.
const char* reason_not_to_replay();
/// What a trace is made under, as a number: recording, inference mode, the default type.
int mode_of_replay();

void bind_replay_state(nanobind::module_& m);
/// Of a `_Cut`.
replay::Cut* cut_of(nanobind::handle graph);
void bind_replay_graph(nanobind::module_& m);

}  // namespace adjoint::bind
