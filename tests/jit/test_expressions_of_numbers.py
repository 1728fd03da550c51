"""What Python's functions and operators make of a number that changes: a replay gives what they would.

Start reading at `EXPRESSIONS`, of a number `k`.
"""

import dataclasses
import enum
import functools
import importlib

import pytest
import twice

EXPRESSIONS = """
k if k is TWO else 7 | k is k | k is not TWO | 0 if k is None else k | 0 if k is True else k | 0 if k * 0.25 is HALF else k
operator.is_(k, TWO) | operator.is_not(k, TWO) | isinstance(k, int) | isinstance(k, numbers.Integral) | isinstance(k, Kind)
k.__class__ is int | k.__class__ == int | kind(k) | type(k).__name__ | type(k)(3) + k | callable(k) | hasattr(k, "__dict__") | "is_integer" in dir(k)
k in {1, 2} | k in (1, 2) | {1: 5, 2: 6}.get(k, 9) | {k: 1} | len({k, 2}) | [1, 2, 3, 4, 5, 6, 7].index(k) | (1, 2, 2).count(k) | collections.Counter([k, 2])[2]
k < 3 | 1 < k < 4 | k == k | not (k - 2) | (k - 2) and 5 | all([k - 2]) | any([k - 2]) | sorted([k, 3, 1]) | (min(k, 3), max(k, 3)) | bisect.bisect([1, 3, 5], k)
max([1, 2, 3], key=lambda v: -abs(v - k)) | sum(1 for v in (1, 2) if v != k) | sum([k, 0.1]) | sum(v for v in (k, 0.5)) | math.fsum([k, 0.1]) | math.prod([k, 2])
f"{k}" | "%s %d" % (k, k) | format(k, ".2f") | str(k) | repr(k) | hash(k) | chr(65 + k) | bin(k) | hex(k) | string.Template("$k").substitute(k=k) | json.dumps({"a": [k]})
int(k) | float(k) | bool(k) | complex(k, 1).real | round(k) | round(k, 1) | math.floor(k / 2) | math.ceil(k * 0.5) | math.trunc(k * 1.5) | float(k).is_integer() | (k * 1.0).is_integer()
[1, 2, 3, 4, 5, 6, 7, 8, 9][operator.index(k)] | list(range(k)) | [0] * k | "-" * k | "abcdefghi"[:k] | "7".zfill(k) | list(itertools.repeat(0, k)) | list(itertools.islice("abcdef", k))
divmod(k, 2) | pow(k, 2, 5) | k ** 2 | 2 ** k | k % 3 | k // 2 | k / 2 | abs(k - 3) | ~k | 1 << k | math.copysign(1, k - 2) | math.isnan(k) | math.isclose(k, 2)
math.sqrt(k) | math.gcd(k, 4) | math.factorial(k) | math.hypot(k, 1) | math.ldexp(1.0, k) | k.bit_length() | k.to_bytes(2, "big") | k.real | k.conjugate() | k.numerator | k.as_integer_ratio()
copy.copy(k) | copy.deepcopy([k]) | statistics.mean([k, 1]) | float(decimal.Decimal(k)) | float(fractions.Fraction(k, 3)) | struct.pack("d", k)
float(np.float64(k)) | np.array([k]).tolist() | float(np.sqrt(k)) | Kind(k % 3 + 1).value | 0 if Kind(k % 3 + 1) is Kind.A else k | Held(k) == Held(2) | cached(k)
list(itertools.accumulate([k, 1, 2])) | list(itertools.starmap(pow, [(k, 2)])) | functools.reduce(operator.add, [k, 1]) | functools.partial(operator.mul, k)(2) | typing.cast(int, k)
"""
MODULES = "bisect collections copy decimal fractions functools itertools json math numbers operator statistics string struct typing"
TWO, HALF = 2, 0.5
NUMBERS = [
    (1, 1, 2, 3, 4, 5, 2, 6, 1, 2, 3, 7),
    (1.5, 1.5, 2.5, 2.0, 4.0, -1.5, 2.0, 0.0, 3.0, 2.0, 1.0, -0.0),
    (1, 1, 2, 2, 3, 1.0, 2.0, 3.0, True, 2, False, 4),
]


class Kind(enum.IntEnum):
    A, B, C = 1, 2, 3


@functools.singledispatch
def kind(k):
    return 1


kind.register(int, lambda k: 2)
kind.register(float, lambda k: 3)


@dataclasses.dataclass
class Held:
    k: object


@functools.lru_cache
def cached(k):
    return k * 2


@pytest.mark.parametrize("given", NUMBERS, ids=["ints", "floats", "both"])
@pytest.mark.parametrize(
    "expression", [e.strip() for e in EXPRESSIONS.replace("\n", "|").split("|") if e.strip()]
)
def test_an_expression(expression, given):
    space = {name: importlib.import_module(name) for name in MODULES.split()}
    made = eval(f"lambda k: {expression}", {**globals(), **space, "np": importlib.import_module("numpy")})

    def program(jit, see):
        def returned(x, k):
            return x * 2, made(k)

        def used(x, k):
            value = made(k)
            return x * (value if isinstance(value, (int, float)) else len(str(value)))

        for f in (jit(returned), jit(used)):
            for k in given:
                with see.error():
                    see(f(twice.numbers(2), k))

    twice.same(program, None)
