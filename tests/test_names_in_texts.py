"""What comments of the core and notes name is there: files, functions, other notes, and where to start reading.

A name in backticks is one that code of the tree uses, wherever; a path is the end of a file's or a folder's. Start reading
at `said`.
"""

import functools
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("core", "src", "tests", "tools", "benchmarks", "docs", "examples", ".ci", ".github")
#: Comments and texts of C++, of which the texts stay where they are.
PIECE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
PATH = re.compile(r"(?<![\w./{<-])((?:[\w.]+/)*\w[\w.]*\.(?:h|cpp|py|md))\b(?![\w(/])")
NOTE = re.compile(r"\bNote: ([a-z][\w',  ]*)")
START = re.compile(r"[Ss]tart(?:s)? reading (?:at|in|with) ([^.]*(?:\.(?:h|cpp|py)[^.]*)*)")

#: Names of other systems, of examples, and of what C++ has.
ELSEWHERE = {
    "pthread_exit": "of the C library",
    "Wswitch": "an option of the compiler",
    "EdgeIndex": "torch-geometric's",
    "linalg_norm": "torch's",
    "_generate_state": "torch's",
    "_add_batch_dim": "torch's",
    "tensorboard": "torch's",
    "pyconfig": "Python's",
    "PC": "Python's",
    "SomeTable": "an example",
    "_saved_result1": "an example of torch's",
    "x_": "an example of Markdown",
    "e5": "half of 1e5",
    "grep": "of git",
    "_ediff1d": "was shown, and taken out",
}
#: Files that are made, or examples.
MADE = {
    "tests/test_numbers.py",  # of measured numbers, by tools/measure.py
    "core/ops/NAME.cpp",
    "core/ops/NAME.isa.cpp",
    "pyconfig.h",
}


@functools.cache
def tracked():
    """The files of the tree, by their paths; without git, what lies in its folders."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    found = listed.stdout.split() or [
        f.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for f in (ROOT / folder).rglob("*")
        if f.is_file()
    ]
    return [f for f in found if (ROOT / f).is_file()]


def split(text):
    """Code and comments of a C++ file; lines of one comment are joined."""
    comments = PIECE.findall(text)
    said = "\n".join(c for c in comments if c.startswith("/"))
    code = PIECE.sub(lambda m: m.group() if m.group().startswith('"') else " ", text)
    return code, re.sub(r"\s+", " ", re.sub(r"^\s*/+", " ", said, flags=re.MULTILINE))


@functools.cache
def words():
    """All that code calls something: identifiers, and words in texts, which name operators."""
    found = set()
    for name in tracked():
        if name == "tests/test_names_in_texts.py":
            continue
        text = (ROOT / name).read_text("utf-8", errors="replace")
        if name.endswith((".h", ".cpp")):
            found |= set(re.findall(r"\w+", code_of_core()[name]))
        elif name.endswith(".py"):
            found |= set(re.findall(r"\w+", re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)))
        elif name.endswith((".txt", ".cmake", ".toml", ".yml")) or name.startswith(".ci/"):
            found |= set(re.findall(r"\w+", text))
        found |= set(re.findall(r"\w+", name))
    return found


@functools.cache
def ends():
    """Every end of a path of a file or a folder."""
    found = set()
    for name in tracked():
        parts = name.split("/")
        for last in range(1, len(parts) + 1):
            found |= {"/".join(parts[first:last]) for first in range(last)}
    return found


@functools.cache
def code_of_core():
    """Of every C++ file of the tree, without comments."""
    return {f: split((ROOT / f).read_text("utf-8"))[0] for f in tracked() if f.endswith((".h", ".cpp"))}


@functools.cache
def members():
    """Of types and namespaces of the core the words of the files that have them."""
    found = {}
    begins = re.compile(r"\b(?:struct|class|namespace|enum)\s+(?:class\s+)?([\w:]+)|\b(\w+)::\w")
    for code in code_of_core().values():
        names = {part for pair in begins.findall(code) for part in ":".join(pair).split(":") if part}
        inner = set(re.findall(r"\w+", code))
        for name in names:
            found.setdefault(name, set()).update(inner)
    return found


def lacks(outer, inner):
    """Whether no file that knows a type or a namespace of the core has a member's name."""
    return outer in members() and inner not in members()[outer]


@functools.cache
def titles():
    notes = [f for f in tracked() if f.startswith("docs/notes/")]
    return {(ROOT / f).read_text("utf-8").partition("\n")[0].removeprefix("# Note: ").lower() for f in notes}


@functools.cache
def said(name):
    """What a comment or a note says, in which names may be: without blocks of code."""
    text = (ROOT / name).read_text("utf-8")
    return split(text)[1] if name.startswith("core/") else re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def unknown(text):
    """What a text names that is not there."""
    found = []
    for quoted in re.findall(r"`([^`\n]+)`", text):
        found += [w for w in re.findall(r"[A-Za-z_]\w*", quoted) if w not in words() and w not in ELSEWHERE]
        found += [f"{a}::{b}" for a, b in re.findall(r"(\w+)::(\w+)", quoted) if lacks(a, b)]
    found += [p for p in PATH.findall(text) if p.removeprefix("../") not in ends() and p not in MADE]
    known = titles()
    for note in NOTE.findall(text):
        if not any(note.lower().startswith(t) or t.startswith(note.lower().strip(" ,")) for t in known):
            found.append(f"Note: {note}")
    return found


@functools.cache
def texts():
    cores = [f for f in tracked() if f.startswith("core/") and f.endswith((".h", ".cpp"))]
    return cores + [f for f in tracked() if f.startswith("docs/notes/")] + ["CONTRIBUTING.md"]


def test_what_texts_name_is_there():
    assert len(texts()) > 450 and len(words()) > 20000  # it has looked
    assert [f"{name}: {what}" for name in texts() for what in unknown(said(name))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `pass_door`, and `Walk` of kernels/walk.h", []),
        ("`no_such_function_at_all` does it", ["no_such_function_at_all"]),
        ("`SavedTensor::unpack`, not `SavedTensor::pass_door`", ["SavedTensor::pass_door"]),
        ("as in kernels/nowhere.h, and Note: devices", ["kernels/nowhere.h"]),
        ("see Note: a thing that never was.", ["Note: a thing that never was"]),
    ],
)
def test_what_is_not_there_is_found(text, found):
    assert unknown(text) == found


def test_where_to_start_reading_is_in_that_file():
    """Or in a file that the same sentence names."""
    lost, looked = [], 0
    for name in texts():
        if not name.startswith("core/"):
            continue
        code, comments = code_of_core()[name], said(name)
        for sentence in START.findall(comments):
            here = code
            for path in PATH.findall(sentence):
                here += "".join((ROOT / f).read_text("utf-8") for f in tracked() if f.endswith("/" + path))
            for quoted in re.findall(r"`([^`]+)`", sentence):
                looked += 1
                names = re.findall(r"[A-Za-z_]\w*", quoted)
                lost += [f"{name}: {quoted}"] * any(not re.search(rf"\b{w}\b", here) for w in names)
    assert looked > 100 and lost == []
