"""By hand, where torch is installed: which names of arguments torch's functions take and Adjoint's do not.

    python tests/compare_keywords.py

The names are those of `torch.overrides.get_testing_overrides()`, which has nearly every function and method of torch. A
function that Adjoint does not have is no difference; one that takes any keywords cannot be compared. `KNOWN` are
differences that stay, with their reasons. Start reading at `main`.
"""

import inspect
import re
import sys

import torch

import adjoint as ad

#: Arguments that mean nothing here: sparse and quantized layouts, other devices, what torch itself calls internal.
ANYWHERE = {
    "layout",
    "device",
    "pin_memory",
    "memory_format",
    "generator",
    "out",
    "_stacklevel",
    "output_dtype",
    "async",
    "non_blocking",
    "dtype",
}

#: What the stand-ins say and torch's documentation does not, or what means nothing without torch's own machinery.
KNOWN = {
    "linalg.vecdot": {"other"},
    "dropout": {"inplace"},
    "Tensor.where": {"y"},
    "Tensor.fill_diagonal_": {"value"},
}


def places():
    """Pairs of namespaces that correspond: name, torch's, Adjoint's."""
    yield "", torch, ad
    yield "Tensor.", torch.Tensor, ad.Tensor
    for name in ("nn.functional", "linalg", "special", "fft"):
        ours, theirs = ad, torch
        try:
            for part in name.split("."):
                ours, theirs = getattr(ours, part), getattr(theirs, part)
        except AttributeError:
            continue
        yield name + ".", theirs, ours


def taken(function):
    """The names of arguments that a function of Adjoint takes; None where it takes any."""
    if isinstance(function, ad._C.Operator):
        names = set(function.keywords) | {"out"}
        return names if function.overload is None else names | (taken(function.overload) or set())
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}


def wanted(stand_in):
    parameters = inspect.signature(stand_in).parameters.values()
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def differences():
    stand_ins = torch.overrides.get_testing_overrides()
    for prefix, theirs, ours in places():
        for name in sorted(dir(theirs)):
            if name.startswith("__"):
                continue
            function = getattr(theirs, name, None)
            mine = inspect.getattr_static(ours, name, None)
            if mine is None or not callable(mine):
                continue
            try:
                stand_in = stand_ins.get(function)
            except TypeError:
                continue
            names = taken(mine)
            if stand_in is None or names is None:
                continue
            # Stand-ins stand for calls by place too: a name that the documentation does not have is none.
            documented = set(re.findall(r"\w+", function.__doc__ or ""))
            missing = (wanted(stand_in) & documented) - names - ANYWHERE - KNOWN.get(prefix + name, set())
            if prefix == "Tensor.":
                missing -= {"self", "input", "tensor"}
            if prefix == "linalg.":
                missing -= {"input", "a"}  # A, in the documentation
            if missing:
                yield prefix + name, sorted(missing), sorted(names)


def main():
    """Print a line for each function that lacks a name."""
    count = 0
    for name, missing, names in differences():
        count += 1
        print(f"{name}: lacks {', '.join(missing)}; takes {', '.join(names)}")
    print(f"{count} functions take fewer names than torch's")
    return count != 0


if __name__ == "__main__":
    sys.exit(main())
