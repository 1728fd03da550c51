"""What code can read, by its bytecode: attributes, globals, dotted paths through modules, imports.

Code is the program's own, the library's, or the standard library's; only names of the first lead through modules. Start
reading at `CodeFacts`.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
import types
import weakref

from adjoint import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["LIBRARY", "CodeFacts", "Codes", "facts_of", "gather"]

#: Code in here is the library's own: its globals are known by their version, and what it reads of a program's objects it
#: reads by names that its code holds.
LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_STANDARD = os.path.dirname(os.__file__) + os.sep


def is_standard(file: str) -> bool:
    """Whether code of this file is the standard library's."""
    if "site-packages" in file or "dist-packages" in file:
        return False
    return file.startswith((_STANDARD, "<frozen "))


#: What an import statement runs, also where nothing is imported.
_BY_STATEMENTS = "_handle_fromlist"
#: Who names one of these may read any attribute.
_READS_ANY = frozenset(
    "getattr hasattr vars dir setattr delattr attrgetter methodcaller __dict__ __getattribute__ __slots__ locals globals eval "
    "exec format format_map __reduce_ex__ __getstate__ copy deepcopy".split()
)
_LOADS_GLOBAL = frozenset(
    dis.opmap[name]
    for name in (
        "LOAD_GLOBAL",
        "LOAD_NAME",
        "STORE_GLOBAL",
        "DELETE_GLOBAL",
        "STORE_NAME",
        "LOAD_FROM_DICT_OR_GLOBALS",
    )
    if name in dis.opmap
)
_LOADS_ATTRIBUTE = frozenset(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap)
_STORES = frozenset(
    dis.opmap[name] for name in ("STORE_FAST", "STORE_DEREF", "STORE_NAME") if name in dis.opmap
)
_LOAD_ATTR = dis.opmap["LOAD_ATTR"]
_IMPORTS = dis.opmap["IMPORT_NAME"]
_IMPORTS_FROM = dis.opmap["IMPORT_FROM"]
#: What may stand between a global and an attribute that is read of it.
_CACHES = dis.opmap.get("CACHE")
_EXTENDS = dis.opmap["EXTENDED_ARG"]
#: A pattern of a class reads attributes that the class names in `__match_args__`.
_MATCHES = dis.opmap.get("MATCH_CLASS")
#: Who names one of these looks at what makes a function or a class.
_INSIDE = frozenset(
    "__name__ __qualname__ __doc__ __annotations__ __defaults__ __kwdefaults__ __closure__ __module__ __code__ cell_contents".split()
)
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
#: Functions that tell objects in the places of numbers from numbers, or add them up in another way: see _tracked.py.
_TELLS = frozenset(("type", "sum"))
#: And so does an operator, where a number may stand on either side, and what `operator` has for it.
_SAME = frozenset(("is_", "is_not"))
_IS, _LOADS_CONSTANT = dis.opmap["IS_OP"], dis.opmap["LOAD_CONST"]
#: Of the standard library, what asks so of other things than numbers: a statement that imports, say.
_TELLS_NOT = ("contextlib.py", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
#: LOAD_GLOBAL holds one more bit since 3.11, LOAD_ATTR since 3.12.
_SHIFT = 1 if sys.version_info >= (3, 11) else 0
_SHIFT_OF_ATTRIBUTE = 1 if sys.version_info >= (3, 12) else 0


class CodeFacts:
    """The attributes, globals and imported modules that code names; and whether it may read any attribute. `compared`: the right
    operands of `is` that are no constants, as ways: empty where it is no global or attribute of one.

    Of code that is not the program's own also `through`: ways that begin at a global, or at a module that it imports, and
    lead on by attributes, which lead through modules.
    """

    if TYPE_CHECKING:
        weak: Any
    __slots__ = (
        "any",
        "attributes",
        "compared",
        "globals",
        "imports",
        "inside",
        "library",
        "nested",
        "own",
        "through",
        "weak",
    )

    def __init__(self, code: types.CodeType) -> None:
        self.library = code.co_filename.startswith(LIBRARY)
        #: Whether it is the program's, so that its names lead through modules.
        self.own = not self.library and not is_standard(code.co_filename)
        named = code.co_names
        used: dict[str, None] = {}  # in the order of the code, so that layouts agree
        imports = set()
        through: dict[tuple[str, ...], None] = {}
        way: tuple[str, ...] = ()
        compared: dict[tuple[str, ...], None] = {}
        raw, extended, matches, constant = code.co_code, 0, False, False
        for i in range(0, len(raw), 2):
            op, arg = raw[i], raw[i + 1] | extended
            extended = arg << 8 if op == _EXTENDS else 0
            if op in (_CACHES, _EXTENDS):
                continue
            if op == _IS and not constant:
                compared[way] = None
            constant = op == _LOADS_CONSTANT and type(code.co_consts[arg]) not in (int, float)
            if op in _LOADS_ATTRIBUTE and way:
                way = (*way, named[arg >> _SHIFT_OF_ATTRIBUTE if op == _LOAD_ATTR else arg])
                through[way] = None
                continue
            if op == _IMPORTS_FROM and way:
                way = way[:2]
                through[way + (named[arg],)] = None
                continue
            if op in _LOADS_GLOBAL:
                used[named[arg >> _SHIFT if op == _LOAD_GLOBAL else arg]] = None
                way = (named[arg >> _SHIFT if op == _LOAD_GLOBAL else arg],)
                continue
            if op == _IMPORTS:
                imports.add(named[arg])
                way = ("", named[arg])
                through[way] = None
                continue
            if op not in _STORES:
                way = ()
            if op == _MATCHES:
                matches = True
        names = dict.fromkeys(named)
        self.any = (matches or not _READS_ANY.isdisjoint(named)) and not self.library
        self.inside = not _INSIDE.isdisjoint(named) and not self.library
        self.nested: list[types.CodeType] = []
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                self.nested.append(const)
            elif type(const) is tuple:
                # Keywords, and attributes that patterns of a match statement name.
                names.update(dict.fromkeys(n for n in const if type(n) is str))
            elif self.library and type(const) is str and const.isidentifier():
                names[const] = None
        self.imports = frozenset(imports)
        self.compared = tuple(compared) if self.own else ()
        self.through = tuple(through) if not self.own else ()
        path = getattr(code, "co_qualname", code.co_name)  # since 3.11
        if "<" not in path:
            used[path.partition(".")[0]] = None
        if "." in path and not self.library:
            names[code.co_name] = None  # C may have called it: the methods of a Function, say
        self.attributes = tuple(names)
        self.globals = tuple(used)


_code_facts: dict[int, CodeFacts] = {}


def facts_of(code: types.CodeType) -> CodeFacts:
    """The facts about code, computed once per code object."""
    key = id(code)
    facts = _code_facts.get(key)
    if facts is None:
        facts = _code_facts[key] = CodeFacts(code)
        facts.weak = weakref.ref(code, lambda _: _code_facts.pop(key, None))
    return facts


def _may_be_number(way: tuple[str, ...], namespace: dict[str, Any] | None) -> bool:
    """Whether this way from a global may lead to a number: one that goes through modules and classes may be known not to."""
    if not way:
        return True
    root, *names = way
    found: Any = (namespace or {}).get(root, vars(builtins).get(root, 0))
    for name in names:
        found = vars(found).get(name, 0) if isinstance(found, (types.ModuleType, type)) else 0
    return type(found) in (int, float)


#: The facts of all code that ran, by the addresses of code, which they hold, and of globals: those of the last lists.
_gathered: dict[Any, Any] = {}


class Codes(list):
    """Code that ran, in pairs with its globals; and what `gather` found, which is looked for once."""

    if TYPE_CHECKING:
        gathered: Any
    gathered = None


def gather(codes):
    """What the walk is to know of the code that ran, but for the globals themselves: dict of facts, names by globals, names of
    modules that it imports, what it reads through modules, the code, which its address stands for, and what `Watching` need not note.
    """
    if (known := getattr(codes, "gathered", None)) is not None:
        return known
    key = _C._addresses_of(codes)
    known = _gathered.get(key)
    if known is not None:
        if type(codes) is Codes:
            codes.gathered = known
        return known
    names: dict[str, None] = {}
    by_globals: dict[int, tuple[int, dict[str, None], bool]] = {}
    own: dict[str, None] = {}
    own_any = False
    nested: set[int] = set()
    ran, any_attribute, inside, registries, tells = [], False, False, False, False
    imports: dict[tuple[str, str], None] = {}
    for at, (code, namespace) in enumerate(codes):
        facts = facts_of(code)
        names.update(dict.fromkeys(facts.attributes))
        if facts.own:
            own.update(dict.fromkeys(facts.attributes))
            own_any = own_any or facts.any
        elif not facts.library and code.co_name != _BY_STATEMENTS:
            own.update((name, None) for way in facts.through for name in way[1 if way[0] else 2 :])
        any_attribute = any_attribute or facts.any
        inside = inside or facts.inside
        if not facts.library and not code.co_filename.endswith(_TELLS_NOT):
            tells = tells or not _TELLS.isdisjoint(facts.globals) or not _SAME.isdisjoint(facts.attributes)
            tells = tells or any(_may_be_number(way, namespace) for way in facts.compared)
        registries = registries or code.co_name in ("__instancecheck__", "__subclasscheck__")
        nested.update(map(id, facts.nested))
        if not facts.library or code.co_freevars:
            ran.append(code)
        if facts.imports and not facts.library:
            package = (namespace or {}).get("__package__") or ""
            imports.update(((name, package), None) for name in facts.imports)
        if namespace is not None:
            entry = by_globals.setdefault(id(namespace), (at, {}, facts.library))
            entry[1].update(dict.fromkeys(facts.globals))
    outer = [c for c in ran if id(c) not in nested and not facts_of(c).library]
    met = [c for c in outer if c.co_freevars or "<locals>" in getattr(c, "co_qualname", "")]
    gathered = {
        "names": frozenset(names),
        "own": tuple(own),
        "own_any": own_any,
        "all": any_attribute,
        "inside": inside or any_attribute,
        "registries": registries,
        "tells": tells,
        "ran": ran,
        "closures": met,
    }
    spaces = [(at, tuple(used), library) for at, used, library in by_globals.values()]
    if len(_gathered) > 64:
        _gathered.clear()
    seen = _C._Known([(id(code), id(names), facts_of(code).library) for code, names in codes])  # type: ignore[call-arg]
    _gathered[key] = known = gathered, spaces, _paths(imports), _Through(), [code for code, _ in codes], seen
    return known


class _Through:
    """What the library's code that ran reads through modules: (their globals, names), to be compared by identity. It is
    found again where one of the dicts that it was found in was written.
    """

    def __init__(self) -> None:
        self.read: list[dict[Any, Any]] = []
        self.versions: Any = None
        self.found: list[Any] = []

    def now(self, codes: Iterable[tuple[types.CodeType, dict[str, Any] | None]]) -> list[Any]:
        if self.versions is None or self.versions != _C._versions_of(self.read):
            self._find(codes)
            self.versions = _C._versions_of(self.read)
        return self.found

    def _find(self, codes: Iterable[tuple[types.CodeType, dict[str, Any] | None]]) -> None:
        found: dict[int, tuple[dict[str, Any], dict[str, None]]] = {}
        read: dict[int, dict[Any, Any]] = {id(sys.modules): sys.modules}

        def note(module: Any, names: Iterable[str]) -> None:
            read[id(vars(module))] = vars(module)
            found.setdefault(id(module), (vars(module), {}))[1].update(dict.fromkeys(names))

        def note_any(module: Any, names: Iterable[str]) -> None:
            if isinstance(module, types.ModuleType):
                there = vars(module)
                note(module, [name for name in names if name in there])

        for code, namespace in codes:
            facts = facts_of(code)
            for root, *way in facts.through if facts.library else ():
                if root:
                    at = (namespace or {}).get(root)
                    if namespace is not None:
                        read[id(namespace)] = namespace
                else:
                    path = way.pop(0)
                    at = sys.modules.get(path)
                    while path:
                        note_any(sys.modules.get(path), facts.attributes)
                        path = path.rpartition(".")[0]
                for name in way:
                    if not isinstance(at, types.ModuleType):
                        break
                    note(at, (name,))
                    at = vars(at).get(name)
                if not root:
                    note_any(at, facts.attributes)
        self.read = [*read.values()]
        self.found = [(names, tuple(used)) for names, used in found.values()]


def _paths(imports: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The names in `sys.modules` that code looks for as it imports, from pairs of a name and the package of who imports."""
    found: dict[str, None] = {}
    for name, package in imports:
        for start in _prefixes(package):
            path = f"{start}.{name}" if start and name else start or name
            while path:
                found[path] = None
                path = path.rpartition(".")[0]
    return tuple(found)


def _prefixes(package):
    yield ""
    while package:
        yield package
        package = package.rpartition(".")[0]
