"""Every element-wise operator of the table with numbers at and beyond the limits of the types, against torch.

    python -m tests.ops.numbers_against_torch [--show 40]

For each operator that torch has by the same name, each dtype and each number of `numbers_at_limits`, in each place that
may be a number, as function, method, in place and reflected: the value, its dtype, or that both refuse. Prints the
number of cases and the differences by operator, and exits with 1 if there are any. torch is no part of the tests: where
it is missing this says so and exits with 2. Calls that torch refuses and Adjoint computes are counted by themselves;
what differs by decision is said in `by_decision`.
"""

import argparse
import collections
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from numbers_at_limits import COMPLEX_NUMBERS, REAL_NUMBERS, elements  # noqa: E402

import adjoint as ad  # noqa: E402

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "complex64": 1e-5}
NUMBERS = [*REAL_NUMBERS, *COMPLEX_NUMBERS]


def by_decision(name, dtype, number, mine, theirs):
    """Why a difference is none, or ""."""
    if mine[0] == "refused" and (
        "not implemented for 'complex" in mine[1] or "must be float, not complex" in mine[1]
    ):
        return "the operator, or its parameter, is for real numbers here"
    if "complex" in dtype and name in ("add", "sub") and not np.isfinite(np.complex64(number)):
        return "torch multiplies by alpha first, which makes a NaN of an infinity's other part"
    if "complex" in mine[0] and name in ("pow", "div"):
        return "complex powers and quotients differ in last digits and at infinities, whatever the number"
    if isinstance(number, complex) and "complex" not in theirs[0]:
        return "torch takes a complex number without an imaginary part as a real one there"
    if "complex32" in (mine[0], theirs[0]) or "ComplexHalf" in str(theirs[1]):
        return "there is no complex32 here"
    if dtype in ("float16", "bfloat16") and mine[0] == theirs[0]:
        return "torch rounds the number to the half type there; here arithmetic meets it in float32"
    if name == "sub" and isinstance(number, bool):
        return "a bare bool is a number here"
    return ""


def made(library, dtype, count=0):
    values = elements(np.dtype("float32" if dtype == "bfloat16" else dtype).kind)
    return library.tensor(values[count:] + values[:count], dtype=getattr(library, dtype))


def outcome(f):
    """(dtype, values) of a call, or what it was refused with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = f()
    except (RuntimeError, TypeError, OverflowError, ValueError, AttributeError) as error:
        return "refused", f"{type(error).__name__}: {error}"
    name = str(r.dtype).rpartition(".")[2]
    wide = "complex128" if "complex" in name else "float64" if "float" in name else "int64"
    import torch

    library = torch if isinstance(r, torch.Tensor) else ad
    return name, np.asarray(r.detach().to(getattr(library, wide)).tolist())


def agree(mine, theirs):
    if mine[0] != theirs[0]:
        return False
    if mine[0] == "refused":
        return True
    if mine[1].shape != theirs[1].shape:
        return False
    if mine[1].dtype.kind in "bi":
        return bool((mine[1] == theirs[1]).all())
    tolerance = TOLERANCE.get(mine[0], 1e-9)
    smallest = 6.2e-8 if mine[0] == "float16" else 1e-37
    return bool(np.isclose(mine[1], theirs[1], tolerance, smallest, equal_nan=True).all())


def calls(row, name, dtype):
    """(form, f): f(library, number) calls a library's operator with the number in one place."""
    arity, condition = row["arity"], row["condition"]

    def function(library):
        for place in (library, library.special, library.nn.functional):
            if hasattr(place, name):
                return getattr(place, name)
        return getattr(library.Tensor, name)

    if arity == 1 and row["parameters"]:
        yield "parameter", lambda lib, n: function(lib)(made(lib, dtype), n)
    if arity == 2:
        yield "second", lambda lib, n: function(lib)(made(lib, dtype), n)
        yield "zero-dimensional", lambda lib, n: function(lib)(made(lib, dtype)[1], n)
        if row["method"]:
            yield "method", lambda lib, n: getattr(made(lib, dtype), name)(n)
        if row["inplace"]:
            yield "in place", lambda lib, n: getattr(made(lib, dtype), name + "_")(n)
        if row["python"].startswith("__") and name not in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield "reflected", lambda lib, n: getattr(made(lib, dtype), f"__r{row['python'][2:]}")(n)
    if arity == 3 and condition < 0:
        yield "third", lambda lib, n: function(lib)(made(lib, dtype), made(lib, dtype, 1), n)
        yield "second and third", lambda lib, n: function(lib)(made(lib, dtype), n, n)
    if arity == 3 and condition == 0:
        yield "masked", lambda lib, n: function(lib)(lib.tensor([True, False]), made(lib, dtype)[:2], n)
    if arity == 3 and condition == 1:
        yield "masked", lambda lib, n: function(lib)(made(lib, dtype)[:2], lib.tensor([True, False]), n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", type=int, default=40, help="differences to print")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("numbers_against_torch: torch is not installed, and there is nothing else to compare with")
        return 2
    np.seterr(all="ignore")
    cases, skipped, more, decided = 0, [], 0, collections.Counter()
    differences = collections.defaultdict(list)
    for row in ad._C.operators():
        name = row["name"]
        if row["kind"] != "elementwise" or name.startswith("_"):
            continue
        if not any(
            hasattr(place, name) for place in (torch, torch.special, torch.nn.functional, torch.Tensor)
        ):
            skipped.append(name)
            continue
        for dtype in DTYPES:
            for form, f in calls(row, name, dtype):
                for number in NUMBERS:
                    mine, theirs = outcome(lambda: f(ad, number)), outcome(lambda: f(torch, number))
                    cases += 1
                    if (
                        theirs[0] == "refused"
                        and "must be Tensor" in theirs[1]
                        and form != "zero-dimensional"
                    ):
                        # Beside a tensor with dimensions a tensor of the number is as weak.
                        double = (
                            torch.float64
                            if isinstance(number, float)
                            and dtype in ("float16", "bfloat16", "float32", "float64", "complex128")
                            else None
                        )
                        theirs = outcome(lambda: f(torch, torch.tensor(number, dtype=double)))
                    if agree(mine, theirs):
                        continue
                    if theirs[0] == "refused":
                        more += 1
                    elif reason := by_decision(name, dtype, number, mine, theirs):
                        decided[reason] += 1
                    else:
                        differences[name].append(
                            f"{name}, {form}, {dtype}, {number!r}: {mine} | torch {theirs}"
                        )
    total = sum(map(len, differences.values()))
    print(
        f"{cases} cases, {total} differences; {more} that only Adjoint computes; not in torch: {', '.join(skipped) or 'none'}"
    )
    for reason, count in decided.items():
        print(f"  {count} by decision: {reason}")
    for name, found in sorted(differences.items(), key=lambda item: -len(item[1])):
        print(f"  {name}: {len(found)}")
    for found in differences.values():
        for line in found[: max(1, options.show // len(differences))]:
            print(line[:400])
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
