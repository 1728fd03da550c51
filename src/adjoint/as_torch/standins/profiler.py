"""``torch.profiler``: which operators a program calls, how often, and how long they take.

A `profile` stands in front of the table of operators as any `TorchDispatchMode` does, and takes the time of each call in its
thread; what the backward pass computes by itself is seen as far as it calls operators. Regions are those of
`record_function`. Start reading at `profile`.
"""

from __future__ import annotations

import enum
import json
import time
import types
from contextlib import ContextDecorator

from adjoint.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What is watched: the CPU, whatever is asked for."""

    CPU, CUDA, XPU, MTIA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """What a `schedule` wants of a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set:
    """There is the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether torch's own engine of profiling is below: no; `profile` works without."""
    return False


def schedule(*, wait=0, warmup=0, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function of the step's number: after `skip_first` steps, rounds of `wait`, `warmup` and `active` ones."""
    length = wait + warmup + active

    def action(step):
        step -= skip_first
        if step < 0 or (repeat and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class Event:
    """One call: its name, when it began and how long it took, in microseconds."""

    def __init__(self, name, start, shapes):
        self.name = self.key = name
        self.start, self.input_shapes = start, shapes
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.count = 1

    @property
    def cpu_time(self) -> float:
        """The time of one call."""
        return self.cpu_time_total / self.count


class EventList(list):
    """Events, and how they are shown."""

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, header=None, **keywords) -> str:
        """The events in rows, those of the most `sort_by` first."""
        rows = list(self)
        if sort_by:
            field = sort_by.replace("cuda_", "cpu_").replace("device_", "cpu_")
            rows.sort(key=lambda event: getattr(event, field, 0.0), reverse=True)
        total = sum(event.self_cpu_time_total for event in self) or 1.0
        names = max([len(event.key) for event in rows] + [4])
        line = f"{{:<{names}}}  {{:>10}}  {{:>12}}  {{:>12}}  {{:>12}}  {{:>10}}"
        head = line.format("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        text = [header] if header else []
        text += ["-" * len(head), head, "-" * len(head)]
        for event in rows[: row_limit if row_limit >= 0 else None]:
            own, whole, each = (
                f"{value:.3f}us"
                for value in (event.self_cpu_time_total, event.cpu_time_total, event.cpu_time)
            )
            share = f"{100 * event.self_cpu_time_total / total:.2f}%"
            text.append(line.format(event.key, share, own, whole, each, event.count))
        return "\n".join([*text, "-" * len(head), f"Self CPU time total: {total / 1e3:.3f}ms", ""])

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """One event for each name, with the sums of their times."""
        found: dict = {}
        for event in self:
            key = (event.name, str(event.input_shapes) if group_by_input_shape else "")
            one = found.get(key)
            if one is None:
                one = found[key] = Event(event.name, event.start, event.input_shapes)
                one.count = 0
            one.count += 1
            one.cpu_time_total += event.cpu_time_total
            one.self_cpu_time_total += event.self_cpu_time_total
        return EventList(found.values())

    def total_average(self):
        """One event with the sums of all."""
        total = Event("Total", 0.0, [])
        total.count = len(self)
        total.cpu_time_total = total.self_cpu_time_total = sum(event.self_cpu_time_total for event in self)
        return total

    def export_chrome_trace(self, path) -> None:
        """Write the events as a file that ``chrome://tracing`` shows."""
        events = [
            {"name": e.name, "ph": "X", "ts": e.start, "dur": e.cpu_time_total, "pid": 0, "tid": 0}
            for e in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)

    def __str__(self):
        return self.table()


#: The classes by the names that they have in ``torch.autograd.profiler_util``.
FunctionEvent = FunctionEventAvg = Event


def _format_time(time_us) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


class _Watch(TorchDispatchMode):
    def __init__(self, shapes):
        self.events, self._shapes, self._open = EventList(), shapes, []

    def begin(self, name, args=()):
        shapes = [list(getattr(value, "shape", ())) for value in args] if self._shapes else []
        self._open.append(Event(name, time.perf_counter() * 1e6, shapes))

    def end(self):
        event = self._open.pop()
        taken = time.perf_counter() * 1e6 - event.start
        event.cpu_time_total = taken
        event.self_cpu_time_total += taken
        if self._open:
            self._open[-1].self_cpu_time_total -= taken
        self.events.append(event)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.begin(f"aten::{func.__name__}", args)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.end()


#: The profiles that watch, from the outermost to the innermost.
_watching: list[_Watch] = []


class record_function(ContextDecorator):
    """A region with a name: it is an event of the profile that is open, and nothing where there is none."""

    def __init__(self, name, args=None):
        self.name = name

    def __enter__(self):
        self._watch = _watching[-1] if _watching else None
        if self._watch is not None:
            self._watch.begin(self.name)
        return self

    def __exit__(self, *exception):
        if self._watch is not None and self._watch._open:
            self._watch.end()


class profile:
    """A context that takes the time of every operator.

    With a `schedule`, of those steps that it names; `step` says that the next one begins. ``on_trace_ready(self)`` is
    called when a round of them is over, and at the end without one.
    """

    def __init__(
        self,
        use=True,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes=False,
        enabled=True,
        **options,
    ):
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.enabled, self.record_shapes, self.step_num = bool(use and enabled), record_shapes, 0
        self._watch, self._events = None, EventList()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def start(self) -> None:
        """Begin."""
        self._turn(self._action())

    def stop(self) -> None:
        """End; what was seen is shown by `key_averages`."""
        watched = self._watch is not None
        self._turn(ProfilerAction.NONE)
        if watched and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step begins."""
        done = self._action() is ProfilerAction.RECORD_AND_SAVE and self.schedule is not None
        self.step_num += 1
        if done:
            self._turn(ProfilerAction.NONE)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._turn(self._action())

    def _action(self):
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _turn(self, action):
        wanted = self.enabled and action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and self._watch is None:
            self._watch = _Watch(self.record_shapes)
            self._watch.__enter__()
            _watching.append(self._watch)
        elif not wanted and self._watch is not None:
            _watching.remove(self._watch)
            self._watch.__exit__(None, None, None)
            self._events, self._watch = self._watch.events, None

    def events(self) -> EventList:
        """What was seen, in the order in which it ended."""
        return self._watch.events if self._watch is not None else self._events

    function_events = property(events)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0) -> EventList:
        """One event for each operator and region."""
        return self.events().key_averages(group_by_input_shape)

    def total_average(self) -> Event:
        """One event for all."""
        return self.events().total_average()

    def table(self, sort_by=None, row_limit=100, **keywords) -> str:
        """The events in rows."""
        return self.events().table(sort_by, row_limit, **keywords)

    def export_chrome_trace(self, path) -> None:
        """Write the events as a file that ``chrome://tracing`` shows."""
        self.events().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all, in microseconds."""
        return self.total_average().self_cpu_time_total

    def __str__(self):
        return self.table()

    def add_metadata(self, key, value) -> None:
        """Nothing is kept beside the events."""

    add_metadata_json = add_metadata


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """An `on_trace_ready` that writes the events into a folder, a file for each round."""

    def handler(prof):
        import os

        os.makedirs(dir_name, exist_ok=True)
        prof.export_chrome_trace(
            os.path.join(dir_name, f"{worker_name or 'worker'}.{time.time_ns()}.pt.trace.json")
        )

    return handler


class emit_nvtx:
    """A context for a profiler of devices, which is not there."""

    def __init__(self, enabled=True, record_shapes=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


emit_itt = emit_nvtx
#: Intel's tool, which nothing is told here.
itt = types.SimpleNamespace(is_available=lambda: False)
_KinetoProfile = profile
