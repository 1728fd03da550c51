"""The rooms of the C++ core include each other in one direction, and every family stands in the table.

Start reading at `test_every_include_is_in_order`.
"""

import importlib.util
import re
from pathlib import Path

import pytest

import adjoint as ad

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core"
FAMILY = re.compile(r"^using\s+(\w+)\s*=\s*Family<", re.MULTILINE)

spec = importlib.util.spec_from_file_location("rooms", ROOT / "tools" / "rooms.py")
rooms = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rooms)


def test_every_include_is_in_order():
    assert rooms.misplaced(CORE) == []
    assert len(set(rooms.includes(CORE))) > 500  # it has looked


def test_no_room_touches_more_elements_than_it_did():
    assert rooms.touching(CORE, rooms.PLACES_OF_ELEMENTS) == []


@pytest.mark.parametrize(
    ("text", "allowed", "found"),
    [
        ("float* p = t.data<float>();", {}, "touches elements in 1 places, 0 are allowed: ops/a.cpp (1)"),
        ("write_element(p, type, x);", {"ops": 1}, None),
        ("copy(t.bytes()); // t.data<float>()", {"ops": 2}, "lower its number"),
        ('#include "tensor/device.h"', {}, None),
        ("Scalar x = read_element(p, type);", {}, "touches elements"),
    ],
)
def test_places_that_touch_elements_are_counted(tmp_path, text, allowed, found):
    for room in ("ops", "kernels"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.cpp").write_text(text)
    said = rooms.touching(tmp_path, allowed)
    assert len(said) == (found is not None)
    assert not said or found in said[0]


def test_no_more_files_ask_for_batches():
    assert rooms.asking_for_batches(CORE, rooms.ASK_FOR_BATCHES) == []


@pytest.mark.parametrize(
    ("text", "allowed", "found"),
    [
        (
            "if (t->is(TensorImpl::kBatched)) return;",
            {},
            "ops/a.cpp asks whether a tensor stands for a batch",
        ),
        ("return is_batched(t);", {"ops/a.cpp": "why"}, None),
        ("return t->flags & TensorImpl::kCarries;  // is_batched(t)", {}, None),
        ("return is_transformed(t);", {"ops/a.cpp": "why"}, "ops/a.cpp no longer asks for batches"),
    ],
)
def test_files_that_ask_for_batches_are_found(tmp_path, text, allowed, found):
    for room in ("ops", "transforms"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.cpp").write_text(text)
    said = rooms.asking_for_batches(tmp_path, allowed)
    assert len(said) == (found is not None)
    assert not said or found in said[0]


def test_no_room_reads_arguments_by_number():
    assert rooms.by_number(CORE) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('[](Grad g, Input<"mat2"> b, Argument<Scalar, "beta"> beta, Shape<"self"> s)', 0),
        ("[](Grad g, Input<1> b, Argument<OptionalInts, 2> dim, Output<0> y)", 3),
        ("NeededBy<Input<0>, 0, 2> x; rule_of<3>(f); LinearIn<0>{}", 3),
        ("c.given[at].i; c.given[2].text(); arguments[0].tensor", 1),
        ('if (needs[2] || needs & 4 || needs.any<"bias">()) out[2] = b;  // Input<1>', 2),
    ],
)
def test_arguments_by_number_are_counted(tmp_path, text, numbers):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "a.h").write_text(text)
    said = rooms.by_number(tmp_path)
    assert bool(said) == bool(numbers)
    assert not said or f"reads arguments by number in {numbers} places" in said[0]


def test_every_folder_is_a_room():
    assert {folder.name for folder in CORE.iterdir() if folder.is_dir()} <= set(rooms.ROOMS)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"kernels/a.h": '#include "dispatch/b.h"', "dispatch/b.h": ""}, "dispatch stands above kernels"),
        ({"kernels/cpu/a.cpp": '#include "ops/b.h"', "ops/b.h": ""}, "ops stands above kernels"),
        ({"tensor/a.cpp": '#include "autograd/b.h"', "autograd/b.h": ""}, "autograd stands above tensor"),
        ({"ops/a.h": '#include "dispatch/b.h"', "dispatch/b.h": ""}, "dispatch stands above ops"),
        (
            {"dispatch/a.h": '#include "dispatch/family.h"', "dispatch/family.h": ""},
            "dispatch/family stands above",
        ),
        ({"attic/a.h": '#include "tensor/b.h"', "tensor/b.h": ""}, "in no room"),
        ({"ops/a.cpp": "#include <Python.h>"}, "only core/bind may know Python"),
        ({"ops/a.h": "  #  include <nanobind/nanobind.h>"}, "only core/bind may know Python"),
        (
            {"ops/a.h": '#include "ops/b.h"', "ops/b.h": '#include "ops/a.h"'},
            "each other: ops/a.h → ops/b.h → ops/a.h",
        ),
        ({"ops/a.h": '#include "b.h"', "ops/b.h": '#include "a.h"'}, "ops/a.h → ops/b.h → ops/a.h"),
        ({"ops/a.cpp": '#include "dispatch/b.h"', "dispatch/b.h": '#include "ops/c.h"', "ops/c.h": ""}, None),
        ({"bind/a.cpp": "#include <Python.h>\n#include <vector>"}, None),
    ],
)
def test_what_stands_wrong_is_named(tmp_path, files, found):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    said = rooms.misplaced(tmp_path)
    assert len(said) == (found is not None)
    assert found is None or found in said[0]


def test_every_family_that_a_header_declares_is_in_the_table():
    declared = {
        family: header
        for header in (CORE / "ops").glob("*.h")
        for family in FAMILY.findall(header.read_text())
    }
    assert len(declared) > 25
    # Rows that Python declares have no header.
    assert set(declared) == {row["family"] for row in ad._C.operators()} - {"Declared"}


# What of a system is said elsewhere than in runtime/system.h, with its reason.
SYSTEMS_ELSEWHERE = {
    "bind/lock.cpp": {"unistd.h", "unwind.h"},  # where glibc unwinds the stack of a thread that ends
    "kernels/cpu/grid_sampling.isa.cpp": {"immintrin.h"},  # the processor's
    "kernels/cpu/copying.isa.cpp": {"immintrin.h"},
    "kernels/cpu/in_registers.isa.cpp": {"immintrin.h"},
    "runtime/allocator.h": {"__linux__"},  # the model of a thread-local variable
    "runtime/philox.h": {"__linux__"},  # copies of a function for each instruction set
}


def test_what_differs_between_systems_stands_behind_one_header():
    said = re.compile(
        r"#\s*include\s*<((?:sys/)?(?:mman|unistd|dlfcn|pthread|signal|sched|fcntl|wait|time|resource|poll|windows|link|unwind|immintrin)\.h)>"
        r"|\b(__linux__|__unix__|__APPLE__|_WIN32|_MSC_VER)\b"
    )
    found = {}
    for path in CORE.rglob("*"):
        if path.suffix in (".h", ".cpp") and not path.name.startswith("system"):
            names = {a or b for a, b in said.findall(path.read_text(encoding="utf-8"))}
            if names:
                found[path.relative_to(CORE).as_posix()] = names
    assert found == SYSTEMS_ELSEWHERE


#: What of a thread is not in `ThreadState`, which a thread that does a part of its work gets a copy of: with its reason.
OF_A_THREAD = {
    # What that thread gets otherwise: core/transforms/thread_modes.h.
    "bind/autograd.cpp": {"own_saved_hooks": "PythonState", "nested": "how deep passes stand on this stack"},
    "bind/overrides.cpp": {
        "state": "PythonState",
        "modes": "PythonState",
        "skip_next": "for the next call of this thread",
    },
    "runtime/random.cpp": {"own": "ThreadModes"},
    # What runs on this thread's stack, and has no part elsewhere.
    "autograd/crew.h": {"number": "its number among those that work"},
    "autograd/engine.cpp": {"running": "its pass", "executing": "its node"},
    "autograd/node.cpp": {"pending": "nodes that die"},
    "bind/operators.cpp": {"running": "compositions that may come back to themselves"},
    "bind/replay_watch.cpp": {
        "watches": "runs whose code is looked at",
        "unseen": "parts of them that only compute",
    },
    "kernels/launch.cpp": {"recorder": "of one row, which runs in this thread"},
    "kernels/reducer.h": {"current": "of a reduction whose elements this thread makes"},
    "runtime/interrupt.cpp": {
        "shielded": "a scope without interrupts",
        "asked": "when Python was last asked",
    },
    "runtime/lock.h": {"locks_held": "for the check that none is"},
    "runtime/parallel.cpp": {"region_depth": "loops within loops"},
    "runtime/warning.h": {"stands": "of one row, which runs in this thread"},
    "transforms/interpreter.h": {"innermost_": "calls that are being interpreted"},
    # Memory that a thread keeps for its next use.
    "bind/replay_paths.cpp": {"scratch": ""},
    "bind/slots.cpp": {"known": "numbers, where there is no lock of Python's"},
    "kernels/cpu/resampling.cpp": {"recent": "", "next": ""},
    "runtime/allocator.cpp": {"thread_ended": "", "at_thread_end": ""},
    "runtime/allocator.h": {"thread_cache": ""},
    "runtime/device.cpp": {"next": "addresses of no memory"},
}


def code_of(path):
    return re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def test_what_is_switched_on_in_a_thread_is_in_one_struct():
    found = {}
    for path in sorted(CORE.rglob("*")):
        if path.suffix in (".h", ".cpp") and path.stem != "state":
            for declared in re.findall(r"\bthread_local\b([^;({=]*)", code_of(path)):
                name = re.findall(r"\w+", re.sub(r"\[.*?\]", "", declared))[-1]
                found.setdefault(path.relative_to(CORE).as_posix(), set()).add(name)
    # Those of a class are declared in its header and defined in its source.
    declared = {name for file, names in found.items() if file.endswith(".h") for name in names}
    found = {
        f: kept for f, names in found.items() if (kept := names - (declared if f.endswith(".cpp") else set()))
    }
    assert found == {file: set(names) for file, names in OF_A_THREAD.items()}


#: Variables of the core that are neither constant nor atomic nor of a thread, and what keeps threads apart.
GUARDED = {
    "autograd/views.cpp": {"written": "written_mutex"},
    "kernels/cpu/variants.h": {"variant_list": "filled before main"},
    "runtime/allocator.cpp": {"no_cache": "empty for ever", "immortal": "its mutex", "centre": "its mutex"},
    "runtime/allocator_checked.cpp": {"closed_blocks": "the centre's mutex", "resting": "the centre's mutex"},
    "runtime/blas_library.cpp": {"chosen_path": "path_mutex", "searched": "path_mutex"},
    "runtime/device.cpp": {"device_table": "mutex, then `kinds`"},
    "tensor/memory_in_use.cpp": {"all": "its lock"},
    "transforms/autocast.cpp": {"said": "filled before there is an autocast"},
    "transforms/batching_call.cpp": {"loops": "loops_mutex"},
}
VARIABLE = re.compile(
    r"^(?:static |inline |constinit )*(?!using|return|struct|class|namespace|template|concept|extern|enum|typedef|friend|case|public|private)"
    r"[A-Za-z_][\w:]*(?:<[^;=(]*>)?[ *&]+(\w+)(?:\[\w*\])?(?: = [^;]*|\{[^;]*\})?;",
    re.MULTILINE,
)
KEPT_APART = r"^(?:\w+ )*(?:const|constexpr|thread_local|std::atomic|std::mutex|std::recursive_mutex)\b"


def test_what_threads_share_is_atomic_or_guarded():
    """Outside of bind, where Python's lock is held. Pointers to functions are set when the module is loaded."""
    found = {}
    for path in sorted(CORE.rglob("*")):
        name = path.relative_to(CORE).as_posix()
        if path.suffix not in (".h", ".cpp") or name.startswith("bind/"):
            continue
        for line in VARIABLE.finditer(code_of(path)):
            if not re.search(KEPT_APART, line.group()):
                found.setdefault(name, set()).add(line.group(1))
    assert found == {file: set(names) for file, names in GUARDED.items()}


def test_the_module_does_not_say_that_it_needs_no_lock_of_python_s():
    """Until ThreadSanitizer on an interpreter without one says so."""
    texts = [p for p in ROOT.rglob("CMakeLists.txt") if "build" not in p.parts] + [ROOT / "pyproject.toml"]
    assert len(texts) > 3 and [p for p in texts if "FREE_THREADED" in p.read_text(encoding="utf-8")] == []
    assert [p for p in CORE.rglob("*.cpp") if "Py_MOD_GIL_NOT_USED" in p.read_text(encoding="utf-8")] == []


def test_python_s_lock_is_let_go_by_scopes_that_keep_memory():
    """`Unlocked` and `Computing`, which hold a MemoryInUse; and a thread of a pass, which has one of its own."""
    places = re.compile(
        r"PyEval_SaveThread|PyEval_ReleaseThread|gil_scoped_release|Py_BEGIN_ALLOW_THREADS|call_guard"
    )
    found = [p.name for p in sorted((CORE / "bind").iterdir()) for _ in places.findall(code_of(p))]
    assert found == ["autograd.cpp", "computing.cpp", "lock.h"]
