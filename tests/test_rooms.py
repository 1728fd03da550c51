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
