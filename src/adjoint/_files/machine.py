"""A pickle machine that makes nothing but data.

A pickle is a program for a small stack machine; Python's own runs whatever it names. This one knows the same instructions,
takes names from a fixed list (`names.find`), calls nothing else, sets the state of nothing but tensors and ordered dicts,
and believes no length that the bytes do not bear out. Start reading at `run`.
"""

from __future__ import annotations

import collections
import struct

from adjoint import _C
from adjoint._files import names

refuse = names.refuse
_MARK = object()


def run(data, at=0, persistent=None, known=None, buffers=None, encoding="utf-8"):
    """The value that a pickle describes, and where it ends.

    Parameters
    ----------
    data : bytes or memoryview
    at : int
        Where in `data` the pickle begins.
    persistent : function, optional
        What makes a storage of its description.

    Raises
    ------
    UnpicklingError
        The bytes are no pickle, or ask for what is not allowed.
    """
    return _ran(_Machine(memoryview(data), at, persistent, known or names.table(), buffers, encoding))


def skim(data, at, persistent):
    """Where a pickle ends, of which only the descriptions of storages are looked at: nothing is called and nothing made."""
    return _ran(_Skimming(memoryview(data), at, persistent, names.table(), None, "latin1"))[1]


def _ran(machine):
    try:
        return machine.run(), machine.at
    except (names.pickle.UnpicklingError, MemoryError, RecursionError):
        raise
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise refuse(
            f"load(): the file is damaged or no pickle: {type(error).__name__} at byte {machine.at} ({error})"
        ) from error


class _Machine:
    codes: dict

    def __init__(self, data, at, persistent, known, buffers, encoding):
        self.data, self.at = data, at
        self.persistent, self.known, self.encoding = persistent, known, encoding
        self.buffers = iter(buffers or ())
        self.stack: list = []
        self.memo: dict = {}

    def run(self):
        data, codes = self.data, self.codes
        while True:
            if self.at >= len(data):
                raise refuse(f"load(): the file ends within its pickle, at byte {self.at}: it is truncated")
            code = data[self.at]
            self.at += 1
            if code == 46:  # STOP
                if len(self.stack) != 1:
                    raise refuse(
                        f"load(): the pickle ends with {len(self.stack)} values on its stack; expected 1"
                    )
                return self.stack.pop()
            step = codes.get(code)
            if step is None:
                raise refuse(
                    f"load(): the pickle has the instruction {bytes([code])!r} at byte {self.at - 1}, which is not allowed "
                    "or does not exist"
                )
            step(self)

    # -- pieces of the file

    def take(self, count):
        if not 0 <= count <= len(self.data) - self.at:
            raise refuse(
                f"load(): the file is truncated: the pickle asks for {count} bytes at byte {self.at}, where "
                f"{len(self.data) - self.at} are left"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self):
        piece = bytes(self.data[self.at : self.at + 4096])
        end = piece.find(b"\n")
        if end < 0:
            raise refuse(f"load(): the pickle has an unterminated line at byte {self.at}")
        self.at += end + 1
        return piece[:end].decode("utf-8")

    def push(self, value):
        self.stack.append(value)

    def marked(self):
        stack = self.stack
        for i in range(len(stack) - 1, -1, -1):
            if stack[i] is _MARK:
                values = stack[i + 1 :]
                del stack[i:]
                return values
        raise refuse("load(): the pickle closes a group that was not opened")

    def top(self, kind):
        value = self.stack[-1]
        if not isinstance(value, kind):
            raise refuse(
                f"load(): the pickle fills a {type(value).__name__} as if it were another kind of container"
            )
        return value

    # -- steps that do more than push a value

    def find(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise refuse("load(): a global's name is not a string")
        if module == "__builtin__":
            module = "builtins"
        self.push(names.find(module, name, self.known))

    def call(self):
        arguments = self.stack.pop()
        function = self.stack.pop()
        if not isinstance(arguments, tuple) or not callable(function):
            raise refuse(
                f"load(): the pickle calls a {type(function).__name__}; expected one of the allowed names"
            )
        if isinstance(function, type) and issubclass(function, _C.Tensor):
            raise refuse(f"load(): the pickle calls {function.__name__} itself; tensors are made of storages")
        # A number of bytes as argument would be a size to allocate.
        if function is bytearray and not all(isinstance(a, (bytes, str)) for a in arguments):
            raise refuse("load(): the pickle makes a bytearray from a value that is not bytes")
        try:
            self.push(function(*arguments))
        except (names.pickle.UnpicklingError, MemoryError):
            raise
        except AttributeError as error:
            raise refuse(f"load(): the file's arguments do not fit: {error}") from error

    def make(self):
        arguments = self.stack.pop()
        cls = self.stack.pop()
        if (
            cls in (collections.OrderedDict, collections.Counter, set, frozenset, _C.Size)
            or cls in names._added().values()
        ):
            self.push(cls.__new__(cls, *arguments))
        else:
            raise refuse(
                f"load(): the pickle makes an object of {cls!r} without calling it, which is not allowed"
            )

    def build(self):
        state = self.stack.pop()
        value = self.stack[-1]
        if isinstance(value, _C.Tensor):
            names.set_state(value, state)
        elif type(value) is collections.OrderedDict and isinstance(state, dict):
            for name in state:
                if not isinstance(name, str) or hasattr(collections.OrderedDict, name):
                    raise refuse(
                        f"load(): the pickle sets the attribute {name!r} of an OrderedDict, which has one of its own"
                    )
            value.__dict__.update(state)
        elif type(value) in names._added().values():
            if hasattr(value, "__setstate__"):
                value.__setstate__(state)
            else:
                value.__dict__.update(state)
        else:
            raise refuse(
                f"load(): the pickle sets the state of a {type(value).__name__}; only tensors and ordered dicts have one"
            )

    def append(self, values):
        self.top(list).extend(values)

    def put_items(self, values):
        if len(values) % 2:
            raise refuse("load(): the pickle has a key without a value")
        target = self.top(dict)
        for i in range(0, len(values), 2):
            target[values[i]] = values[i + 1]

    def remember(self, index):
        self.memo[index] = self.stack[-1]

    def recall(self, index):
        self.push(self.memo[index])

    def storage(self, description):
        if self.persistent is None:
            raise refuse("load(): the pickle refers to storages, but the file has none")
        self.push(self.persistent(description))

    def buffer(self):
        found = next(self.buffers, None)
        if found is None:
            raise refuse("load(): the pickle keeps bytes elsewhere; pass them as buffers=")
        self.push(found)

    def old_text(self, count):
        data = bytes(self.take(count))
        self.push(data if self.encoding == "bytes" else data.decode(self.encoding))

    def quoted(self):
        text = self.line()
        if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0] or "\\" in text:
            raise refuse("load(): the pickle has a string without quotes")
        self.push(text[1:-1])

    def last(self, count):
        if len(self.stack) < count or any(value is _MARK for value in self.stack[-count:]):
            raise refuse("load(): the pickle takes more values than there are")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def integer(self):
        text = self.line()
        self.push({"00": False, "01": True}[text] if text in ("00", "01") else int(text.rstrip("L")))


def _long(m, form):
    m.push(int.from_bytes(m.take(m.number(form)), "little", signed=True))


def _text(m, form):
    m.push(str(m.take(m.number(form)), "utf-8", "surrogatepass"))


def _stack_global(m):
    module, name = m.last(2)
    m.find(module, name)


def _inst(m):
    m.find(m.line(), m.line())
    function = m.stack.pop()
    arguments = m.marked()
    m.push(function)
    m.push(tuple(arguments))
    m.call()


def _obj(m):
    function, *arguments = m.marked()
    m.push(function)
    m.push(tuple(arguments))
    m.call()


def _protocol(m):
    found = m.number("<B")
    if found > 5:
        raise refuse(f"unsupported pickle protocol: {found}")


_Machine.codes = {
    code[0]: step
    for code, step in {
        b"\x80": _protocol,
        b"\x95": lambda m: m.take(8),
        b"N": lambda m: m.push(None),
        b"\x88": lambda m: m.push(True),
        b"\x89": lambda m: m.push(False),
        b"K": lambda m: m.push(m.number("<B")),
        b"M": lambda m: m.push(m.number("<H")),
        b"J": lambda m: m.push(m.number("<i")),
        b"I": lambda m: m.integer(),
        b"L": lambda m: m.integer(),
        b"\x8a": lambda m: _long(m, "<B"),
        b"\x8b": lambda m: _long(m, "<i"),
        b"G": lambda m: m.push(m.number(">d")),
        b"F": lambda m: m.push(float(m.line())),
        b"X": lambda m: _text(m, "<I"),
        b"\x8c": lambda m: _text(m, "<B"),
        b"\x8d": lambda m: _text(m, "<Q"),
        b"V": lambda m: m.push(m.line()),
        b"S": lambda m: m.quoted(),
        b"U": lambda m: m.old_text(m.number("<B")),
        b"T": lambda m: m.old_text(m.number("<i")),
        b"C": lambda m: m.push(bytes(m.take(m.number("<B")))),
        b"B": lambda m: m.push(bytes(m.take(m.number("<I")))),
        b"\x8e": lambda m: m.push(bytes(m.take(m.number("<Q")))),
        b"\x96": lambda m: m.push(bytearray(m.take(m.number("<Q")))),
        b"\x97": lambda m: m.buffer(),
        b"\x98": lambda m: m.push(memoryview(m.stack.pop()).toreadonly()),
        b"(": lambda m: m.push(_MARK),
        b"0": lambda m: m.stack.pop(),
        b"1": lambda m: m.marked(),
        b"2": lambda m: m.push(m.stack[-1]),
        b")": lambda m: m.push(()),
        b"]": lambda m: m.push([]),
        b"}": lambda m: m.push({}),
        b"\x8f": lambda m: m.push(set()),
        b"\x85": lambda m: m.push(tuple(m.last(1))),
        b"\x86": lambda m: m.push(tuple(m.last(2))),
        b"\x87": lambda m: m.push(tuple(m.last(3))),
        b"t": lambda m: m.push(tuple(m.marked())),
        b"l": lambda m: m.push(m.marked()),
        b"\x91": lambda m: m.push(frozenset(m.marked())),
        b"d": lambda m: (lambda values: (m.push({}), m.put_items(values)))(m.marked()),
        b"a": lambda m: m.append(m.last(1)),
        b"e": lambda m: m.append(m.marked()),
        b"s": lambda m: m.put_items(m.last(2)),
        b"u": lambda m: m.put_items(m.marked()),
        b"\x90": lambda m: (lambda values: m.top(set).update(values))(m.marked()),
        b"q": lambda m: m.remember(m.number("<B")),
        b"r": lambda m: m.remember(m.number("<I")),
        b"p": lambda m: m.remember(int(m.line())),
        b"\x94": lambda m: m.remember(len(m.memo)),
        b"h": lambda m: m.recall(m.number("<B")),
        b"j": lambda m: m.recall(m.number("<I")),
        b"g": lambda m: m.recall(int(m.line())),
        b"c": lambda m: m.find(m.line(), m.line()),
        b"\x93": _stack_global,
        b"R": lambda m: m.call(),
        b"\x81": lambda m: m.make(),
        b"i": _inst,
        b"o": _obj,
        b"b": lambda m: m.build(),
        b"Q": lambda m: m.storage(m.stack.pop()),
        b"P": lambda m: m.storage(m.line()),
    }.items()
}


class _Skimming(_Machine):
    """Whatever is named or made is a blank object, which takes everything."""

    def find(self, module, name):
        found = self.known.get(f"{module}.{name}")
        self.push(found if isinstance(found, names.Kind) else object())

    def call(self, count=2):
        self.last(count)
        self.push(object())

    make = call

    def build(self):
        self.stack.pop()

    def top(self, kind):
        return kind()

    def put_items(self, values):
        pass

    def extension(self, count):
        self.take(count)
        self.push(object())


# The instructions of pickles that may make anything are more.
_Skimming.codes = _Machine.codes | {
    0x92: lambda m: m.call(3),  # a new object by keywords
    0x82: lambda m: m.extension(1),
    0x83: lambda m: m.extension(2),
    0x84: lambda m: m.extension(4),
}
