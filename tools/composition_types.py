"""Measures what compositions take and how they differentiate, by the call of their example, for `help`.

    python tools/composition_types.py --write

A composition has the element types and derivatives of the operators that it calls, which no signature says. Here the arguments of the
first call in each example are cast to each element type and the call is made again, then differentiated in reverse and forward
mode. What holds is written into src/adjoint/_help/compositions.table, a line for each answer, and `tests/test_help.py` finds it
up to date. Start reading at `measure`.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pathlib
import sys
import warnings

import adjoint as ad
from adjoint._help._composition import public_name
from adjoint._help._operator import _types

TABLE = pathlib.Path(__file__).resolve().parent.parent / "src/adjoint/_help/compositions.table"
#: Where compositions are published, and `adjoint` itself.
MODULES = ("nn.functional", "linalg", "special", "fft")
DTYPES = [d for d in vars(ad._C).values() if isinstance(d, ad.dtype)]
_FLOATS = (ad.float32, ad.float64, ad.complex64, ad.complex128)


def compositions():
    """(name, module, function) of each composition with an example, by the name under which `help` has its text."""
    seen = set()
    for module in ("", *MODULES):
        home = importlib.import_module(f"adjoint.{module}".rstrip("."))
        for attribute in sorted(getattr(home, "__all__", ()) or dir(home)):
            value = getattr(home, attribute)
            if isinstance(value, ad._C.Composition) and id(value) not in seen:
                seen.add(id(value))
                yield public_name(value), home, attribute, value


class _Enough(Exception):
    pass


def example_call(home, attribute, function):
    """The arguments of the first call of the function in its example; None where there is none."""
    found = []

    def spy(*args, **kwargs):
        found.append((args, kwargs))
        raise _Enough

    examples = doctest.DocTestParser().get_examples(function.__doc__ or "")
    place = {"ad": ad}
    setattr(home, attribute, spy)
    try:
        for example in examples:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, "example", "single"), place)
            if found:
                return found[0]
    finally:
        setattr(home, attribute, function)
    return None


def leaves(args, kwargs):
    found, structure = ad.tree.flatten((args, kwargs))
    return list(found), structure


def cast(values, dtype):
    """The tensors of the call in another type: those with fractions, or all where none has any."""
    tensors = [i for i, v in enumerate(values) if isinstance(v, ad.Tensor)]
    chosen = [i for i in tensors if values[i].dtype in _FLOATS] or tensors
    return [v.detach().to(dtype) if i in chosen else v for i, v in enumerate(values)], chosen


def tensors_of(result):
    return [x for x in ad.tree.leaves(result) if isinstance(x, ad.Tensor)]


def measure(function, call):
    """The element types that the call takes, and its derivatives."""
    values, structure = leaves(*call)
    if not any(isinstance(v, ad.Tensor) for v in values):
        return None

    def again(given):
        args, kwargs = structure.unflatten(given)
        return function(*args, **kwargs)

    taken = []
    for dtype in DTYPES:
        with contextlib.suppress(Exception):
            again(cast(values, dtype)[0])
            taken.append(dtype.name)
    modes = []
    exact = ad.float64 if "float64" in taken else ad.complex128
    if exact.name not in taken:
        return _types(taken), "none"
    given, chosen = cast(values, exact)
    with contextlib.suppress(Exception):
        wanted = {i: given[i].requires_grad_() for i in chosen}
        # Copies, which functions that write may write.
        out = tensors_of(again([wanted[i].clone() if i in wanted else v for i, v in enumerate(given)]))
        tracked = [x.abs().sum() for x in out if x.requires_grad]
        if not tracked:
            return _types(taken), "none"
        if any(g is not None for g in ad.autograd.grad(tracked, list(wanted.values()), allow_unused=True)):
            modes.append("reverse")
    given, chosen = cast(values, exact)

    def of_chosen(*inputs):
        return tuple(tensors_of(again([dict(zip(chosen, inputs)).get(i, v) for i, v in enumerate(given)])))

    with contextlib.suppress(Exception):
        primals = tuple(given[i] for i in chosen)
        ad.func.jvp(of_chosen, primals, tuple(ad.ones_like(p) for p in primals))
        modes += ["forward"] * ("reverse" in modes)
    return _types(taken), " ".join(modes) or "unknown"


def table() -> str:
    found: dict = {}
    for name, home, attribute, function in compositions():
        ad.manual_seed(0)
        call = example_call(home, attribute, function)
        answer = call and measure(function, call)
        if answer and answer[0]:
            found.setdefault(answer, []).append(name)
    return "".join(
        f"{types} | {modes} | {' '.join(names)}\n" for (types, modes), names in sorted(found.items())
    )


def main() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = table()
    if "--write" in sys.argv:
        TABLE.write_text(text, encoding="utf-8")
    return TABLE.read_text(encoding="utf-8") != text


if __name__ == "__main__":
    sys.exit(main())
