"""The rooms of the core and which of them may include which: `python tools/rooms.py` names every include that may not be.

The order of rooms is stated here and nowhere else. A header may include its own room and those that stand before it in
`ROOMS`; a source may look besides into the rooms that its line names. So no two rooms include each other, and no headers
do. And it counts the places that touch elements outside of the rooms that are there for that (Note: devices), and finds
those that read an operator's arguments by number, where names are checked when the core is compiled (Note: arguments).
Start reading at `ROOMS`.
"""

import re
import sys
from pathlib import Path

#: From the ground up: room, and the rooms above it that its sources, not its headers, may look into. A room is a folder of
#: core/, or files of one that stand higher than the rest.
ROOMS = {
    "state": "",  # what is switched on in this thread
    "as_torch": "",  # what is done for programs that are written for torch, and for no others
    "for_size": "",  # how a source asks to be compiled for size
    "for_narrow": "",  # how a source says that its loops gain nothing from the widest registers
    "for_loops": "",  # how a source of loops by hand asks for one copy of each
    "runtime": "",  # memory, threads, random numbers, BLAS
    "tensor": "",  # element types, storage, shape and strides
    "kernels": "",  # loops and their drivers, which know elements, and neither operators nor history
    "autograd": "ops dispatch transforms",  # the graph; its arithmetic calls operators, and interpreters are told of writes
    "ops": "dispatch",  # headers declare operators; sources say what they plan and how they are differentiated, by calls
    "dispatch": "transforms",  # the table, the door, and what is recorded of a call
    "transforms": "",  # interpreters over the table
    "replay": "",  # what observers saw, as a program that runs again
    "dispatch/family": "",  # how families come into the table
    "adjoint": "",  # adjoint.h: all of it, for programs in C++
    "precompiled": "",  # what the build compiles once for most sources
    "bind": "",  # Python
}
#: The rooms that touch elements. Elsewhere each place that does is one too many: what it computes belongs behind a routine
#: of kernels/. Of how many places bind still has, a number that may only become smaller, each is one where Python's own data
#: goes in and out: numbers of lists, as `tensor` takes them and `tolist` gives them (two each), and the address of the first
#: element, for buffers, DLPack and `data_ptr`; and one counts the bytes of a saved tensor.
MEMORY = "kernels tensor runtime replay adjoint".split()
PLACES_OF_ELEMENTS = {"bind": 8}
ELEMENTS = re.compile(r"\bdata<|[.>]bytes\(\)|\b(?:read|write)_element\(")
#: Arguments of a certain operator that are read by number: in rules, of boxed calls, and as bits of the gradients that are
#: needed. The first of a boxed call may be: it is what an operator writes, or takes a view of.
NUMBERS = re.compile(
    r"\b(?:given|arguments|values|v)\[[1-9]\d*\]\.|\bneeds(?:\[| & )\d"
    r"|\b(?:Input|Output|Shape|Layout|GradOf|Needed|rule_of|LinearIn|MultilinearIn)<\d|\b(?:Argument|NeededBy)<(?:[^;{<>]|<[^<>]*>)*, \d+>"
)
#: Files that ask whether a tensor stands for a batch, outside of transforms/, which makes such tensors, and of tensor.h and
#: tensor.cpp, which have the flag: each with its reason. The list may only become shorter. What does not care for batches,
#: but for tensors that transforms gave something, or whose elements do not lie as they are, asks for a mask of flags.
BATCHES = re.compile(r"\bkBatched\b|\b(?:is_batched|stands_for_batch|per_sample|samples_of|batch_level_of)\(")
ASK_FOR_BATCHES = {
    "dispatch/door.cpp": "the door: such a call is computed on samples",
    "dispatch/elementwise.cpp": "the door of element-wise calls, likewise",
    "dispatch/resolve.cpp": "what may refuse the values of inputs is asked of samples",
    "dispatch/batched_call.h": "what rules for batches are written with",
    "ops/normalization.cpp": "the fused layers take one weight for all samples",
    "autograd/accumulate.cpp": "of what is detached, the samples have no history either",
    "bind/batching.cpp": "vmap() itself, as Python knows it",
    "bind/function.cpp": "a Function has a rule of its own for them, or none",
    "bind/indexing.cpp": "an index that each sample has its own of picks by it, and is no number",
    "bind/tensor_members.cpp": ".data of one is no tensor over its memory",
}
#: Python and nanobind are known to this room alone.
PYTHON = re.compile(r"(Python|structmember|frameobject|datetime)\.h|nanobind/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    """The room of a file, by its path below core/."""
    parts = path.rsplit(".", 1)[0].split("/")
    return next((room for n in (2, 1) if (room := "/".join(parts[:n])) in ROOMS), parts[0])


def includes(core):
    """(file, header) for every include of a header of the core, both by their paths below it; else (file, <header>)."""
    for file in sorted(core.rglob("*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = str(file.relative_to(core))
        for own, system in INCLUDE.findall(file.read_text()):
            beside = file.parent / own
            if own and beside.is_file() and not (core / own).is_file():
                yield name, str(beside.relative_to(core))
            else:
                yield name, own if own else f"<{system}>"


def misplaced(core):
    """A sentence for each include that the order of rooms does not allow, and for each circle of headers."""
    order = list(ROOMS)
    found = []
    graph = {}
    for file, header in includes(core):
        if PYTHON.search(header):
            if room_of(file) != "bind":
                found.append(f"{file} includes {header}: only core/bind may know Python")
            continue
        if header.startswith("<") or not (core / header).is_file():
            continue
        graph.setdefault(file, []).append(header)
        here, there = room_of(file), room_of(header)
        above = ROOMS.get(here, "").split() if file.endswith(".cpp") else []
        if here not in order or there not in order:
            found.append(f"{file} includes {header}: one of them stands in no room that tools/rooms.py knows")
        elif (
            order.index(there) > order.index(here) and there not in above and there.split("/")[0] not in above
        ):
            found.append(f"{file} includes {header}: {there} stands above {here}")
    return found + [f"headers include each other: {' → '.join(circle)}" for circle in circles(graph)]


def circles(graph):
    """Every circle that a walk through the graph meets."""
    found, state = [], {}

    def visit(file, path):
        state[file] = "open"
        for header in graph.get(file, []):
            if state.get(header) == "open":
                found.append([*path[path.index(header) :], header])
            elif header not in state:
                visit(header, [*path, header])
        state[file] = "done"

    for file in graph:
        if file not in state:
            visit(file, [file])
    return found


def places(core, pattern, but=()):
    """How many places of each room match, by file, but for these rooms."""
    found = {}
    for file in sorted(core.rglob("*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = str(file.relative_to(core))
        room = room_of(name).split("/")[0]
        if room not in but and (n := len(pattern.findall(re.sub(r"//.*", "", file.read_text())))):
            found.setdefault(room, {})[name] = n
    return found


def counted(places, allowed, does, instead):
    """A sentence for each room that does something in more, or by now in fewer, places than it is allowed."""
    found = []
    for room in sorted(places.keys() | allowed.keys()):
        files = places.get(room, {})
        n, most = sum(files.values()), allowed.get(room, 0)
        if n > most:
            where = ", ".join(f"{name} ({k})" for name, k in files.items())
            found.append(f"{room} {does} in {n} places, {most} are allowed: {where}. {instead}")
        elif n < most:
            found.append(f"{room} {does} in {n} places only: lower its number in tools/rooms.py")
    return found


def touching(core, allowed):
    """What is to be said of places that touch elements."""
    return counted(places(core, ELEMENTS, MEMORY), allowed, "touches elements", "Use kernels/")


def asking_for_batches(core, allowed):
    """What is to be said of files that ask whether a tensor stands for a batch, and of those that no longer do."""
    asking = {name for files in places(core, BATCHES, ("transforms",)).values() for name in files}
    asking -= {"tensor/tensor.h", "tensor/tensor.cpp"}
    more = "{} asks whether a tensor stands for a batch: ask for what it means (kCarries, kNotAsTheyLie, is_transformed)"
    return [more.format(name) for name in sorted(asking - allowed.keys())] + [
        f"{name} no longer asks for batches: take it out of tools/rooms.py"
        for name in sorted(allowed.keys() - asking)
    ]


def by_number(core):
    """What is to be said of places that read arguments by number."""
    return counted(
        places(core, NUMBERS), {}, "reads arguments by number", 'Use their names, as in Input<"weight">'
    )


def main():
    """Print what is misplaced; 1 if anything is."""
    core = Path(__file__).resolve().parent.parent / "core"
    found = misplaced(core) + touching(core, PLACES_OF_ELEMENTS) + by_number(core)
    found += asking_for_batches(core, ASK_FOR_BATCHES)
    print(
        "\n".join(found) or "every include is in order, and no room does more than it did of what is counted"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
