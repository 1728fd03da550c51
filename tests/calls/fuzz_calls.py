"""Random calls of public functions over shapes, types, layouts and options, each judged by others that must agree with it.

    python -m tests.calls.fuzz_calls --calls 10000 --seed 0                  # Adjoint against itself
    python -m tests.calls.fuzz_calls --calls 10000 --far                     # against itself on a device whose memory the host cannot read
    python -m tests.calls.fuzz_calls --calls 10000 --peer torch              # by hand: against the library of that name

Against itself: inputs that lie otherwise in memory give the same results; the directional derivative of forward mode is that
of the reverse rule, of second derivatives too; `vmap` is a loop; the meta device has the shapes and types. Against a peer: results,
types, shapes, refusals, first and second gradients. Findings are grouped by what was called. Start reading at `judge`.
"""

import argparse
import collections
import importlib
import os
import pickle
import sys
import warnings

import numpy as np

import adjoint as ad

if __name__ == "__main__":
    HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [HERE, os.path.dirname(HERE)]

import families_math
import families_nn
import families_tensor
from making import COMPLEX, FLOATS, INTEGERS, Call
from side_by_side import side_by_side

FAMILIES = {**families_tensor.FAMILIES, **families_nn.FAMILIES, **families_math.FAMILIES}
#: How far results may be apart, beside the largest number of the result, by type.
TOLERANCE = {
    "float64": 1e-8,
    "complex128": 1e-8,
    "float32": 2e-4,
    "complex64": 2e-4,
    "float16": 2e-2,
    "bfloat16": 1e-1,
}
#: What a call may raise: whatever else comes out is a finding.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError, ArithmeticError)


def name_of(dtype):
    return str(dtype).rpartition(".")[2]


def numbers(t, lib):
    """A result as an array in double precision, or as it is."""
    if not isinstance(t, lib.Tensor):
        return np.asarray(t)
    t = t.detach()
    name = name_of(t.dtype)
    if name in ("float16", "bfloat16"):
        t = t.to(lib.float32)
    return t.resolve_conj().resolve_neg().cpu().numpy()


def differ(a, b, dtype, factor=1.0):
    """How two arrays differ, in words; None where they agree."""
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    if a.dtype.kind not in "fc":
        return None if (a == b).all() else "values"
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return None
    tolerance = TOLERANCE.get(dtype, 1e-4) * factor
    pairs = ((a.real, b.real), (a.imag, b.imag)) if "c" in a.dtype.kind + b.dtype.kind else ((a, b),)
    for x, y in pairs:
        x, y = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
                return "NaN or infinity"
            x, y = x[finite], y[finite]
        if x.size:
            size = np.abs(y)
            largest, middle = size.max(), np.sort(size)[y.size // 2]
            # Sums of large numbers that cancel keep their rounding errors.
            scale = np.minimum(middle * 10 + size, largest) + 1e-3 * max(1.0, largest)
            if (np.abs(x - y) > tolerance * scale).any():
                return f"values by {np.abs(x - y).max():.2g}"
    return None


#: What a peer lacks is no finding.
MORE = ("accepts", "gives gradient", "the peer crashes")
#: What is otherwise than in torch, and stays: (kind, what was called) → why.
KNOWN = {
    (
        "refuses",
        "F.batch_norm",
    ): "torch writes running statistics into expanded memory, the last channel's for all",
    (
        "refuses",
        "ad.Tensor.view",
    ): "a view of a floating dtype as another has no derivative; torch drops the history in silence",
    ("requires_grad", "ad.Tensor.view"): "the same dtype keeps its history",
    ("requires_grad", "ad.vander"): "a result of a single column of ones",
    ("requires_grad", "ad.combinations"): "an empty result",
    **{
        (
            "requires_grad",
            f"ad.{name}",
        ): "torch records a node without a derivative, or none at all; Adjoint refuses in backward"
        for name in "histc histogram special.modified_bessel_k0 special.bessel_j0 special.bessel_j1 special.bessel_y0".split()
    },
    ("gradients", "F.batch_norm"): "torch reads strided weights as if they were contiguous",
    ("gradients", "F.group_norm"): "torch's sums of float32 cancel",
    ("gradients", "F.layer_norm"): "torch's sums of float32 cancel",
    ("requires_grad", "ad.linalg.cond"): "an empty result",
    ("gradients", "clone"): "torch keeps the history of a tensor that logical_not_ wrote",
    ("gradients", "ad.std_mean"): "of one complex number: NaN + 0i or NaN + NaN i",
    ("gradients", "ad.var_mean"): "of as many numbers as degrees of freedom: torch gives numbers for a NaN",
    ("gradients", "ad.stft"): "torch shares the gradient evenly among expanded elements of the input",
    ("gradients", "F.softsign"): "at infinity torch gives NaN, Adjoint 0",
    ("gradients", "F.cosine_similarity"): "of vectors of one bfloat16: rounding errors of 0",
    ("refuses", "ad.index_add"): "torch reads no index where there are no elements",
    ("refuses", "ad.take_along_dim"): "torch reads beyond short tensors of one dimension",
    ("refuses", "F.pad"): "a circle of no elements has none to repeat; torch returns uninitialized memory",
    ("result", "F.pad"): "torch repeats what negative padding has cut off, as zeros",
    (
        "result",
        "F.interpolate",
    ): "torch's antialias takes the scale of the width for the height where one of them is 1",
    ("refuses", "F.conv_transpose3d"): "torch makes volumes of which one size is 0, and refuses such images",
    ("gradients", "ad.copysign"): "of NaN",
    ("result", "ad.addcdiv"): "a complex number divided by 0",
    ("result", "ad.addcmul"): "products of three complex numbers, of which one is infinite, in another order",
    ("result", "ad.special.bessel_j1"): "torch's is exact to 1e-7",
    ("result", "ad.distributions.VonMises"): "torch's Bessel functions are exact to 1e-7",
    ("result", "ad.sign"): "of NaN torch gives 0, Adjoint NaN, as NumPy does",
    ("result", "ad.heaviside"): "of NaN torch gives 0, Adjoint NaN, as NumPy does",
    ("result", "ad.special.i1"): "of infinity torch gives NaN",
    ("result", "ad.distributions.ContinuousBernoulli"): "torch's Taylor series near 1/2 is less exact",
    **{
        (kind, f"ad.{name}"): "of equal elements any index is right"
        for kind in ("result", "gradients", "seconds")
        for name in ("median", "nanmedian", "topk", "kthvalue", "mode", "sort", "argsort", "linalg.eigvalsh")
    },
    **{
        ("seconds", name): "torch's second derivative is NaN or of rounding errors"
        for name in "ad.logaddexp ad.logaddexp2 ad.special.entr ad.special.log_ndtr F.cosine_similarity F.cosine_embedding_loss "
        "F.batch_norm F.gelu ad.float_power ad.copysign F.mish ad.linalg.det ad.linalg.cond ad.linalg.vector_norm".split()
    },
}


def readable(error):
    """A refusal, whose words have to be text: a number that is printed as the letter of that code is a finding."""
    words = "" if isinstance(error, UnicodeError) else str(error)
    if not words or not words.replace("\n", " ").replace("\t", " ").isprintable():
        raise SystemError(f"unreadable words: {error!r}")  # which no refusal is
    return error


class Judged:
    """What one library made of a call: results, their types, gradients; or what it raised."""

    def __init__(self, call, lib, layout=None, second=True, device=None):
        self.error, self.results, self.types, self.gradients, self.seconds = None, [], [], None, None
        self.gradient_error = None
        try:
            _, tensors = call.make(lib, layout)
            if device:
                tensors = {
                    n: t.detach().to(device).requires_grad_(t.requires_grad) for n, t in tensors.items()
                }
            with lib.device(device or "cpu"):
                self.raw = call.run(lib, tensors)
            self.results = [numbers(t, lib) for t in self.raw]
            self.types = [
                name_of(t.dtype) if isinstance(t, lib.Tensor) else type(t).__name__ for t in self.raw
            ]
        except REFUSALS as e:
            self.error = readable(e) if lib is ad else e
            return
        self.leaves = [tensors[n] for n, s in call.tensors.items() if s.grad]
        outputs = [t for t in self.raw if isinstance(t, lib.Tensor) and t.requires_grad]
        self.recorded = [isinstance(t, lib.Tensor) and t.requires_grad for t in self.raw]
        if not outputs or not self.leaves:
            return
        try:
            seeds = [weights(t, lib) for t in outputs]
            grads = lib.autograd.grad(outputs, self.leaves, seeds, allow_unused=True, create_graph=second)
            self.gradients = [None if g is None else numbers(g, lib) for g in grads]
            again = [g for g in grads if g is not None and g.requires_grad]
            if second and again:
                grads = lib.autograd.grad(
                    again, self.leaves, [weights(t, lib) for t in again], allow_unused=True
                )
                self.seconds = [None if g is None else numbers(g, lib) for g in grads]
        except REFUSALS as e:
            self.gradient_error = readable(e) if lib is ad else e


def weights(t, lib):
    """A cotangent that is no constant."""
    w = np.cos(1.0 + 0.9 * np.arange(t.numel(), dtype=np.float64)).reshape(tuple(t.shape))
    return lib.from_numpy(w).to(t.dtype).to(t.device)


def compare(a, b, dtype):
    """The findings between two judgements, as (kind, words)."""
    if (a.error is None) != (b.error is None):
        kind = "refuses" if a.error is not None else "accepts"
        yield kind, str(a.error or b.error)[:150]
        return
    if a.error is not None:
        # Of several reasons the two may name different ones; torch takes no numbers where Adjoint does.
        another = any(
            w in str(e)
            for w in ("not implemented for", "must be Tensor, not", "invalid combination")
            for e in (a.error, b.error)
        )
        if not another and not (isinstance(a.error, type(b.error)) or isinstance(b.error, type(a.error))):
            yield "other error", f"{a.error!r:.120} | {b.error!r:.120}"
        return
    if a.types != b.types:
        yield "types", f"{a.types} | {b.types}"
        return
    for x, y, t in zip(a.results, b.results, a.types, strict=True):
        if words := differ(x, y, t):
            yield "result", words
            return
    if a.recorded != b.recorded:
        yield "requires_grad", f"{a.recorded} | {b.recorded}"
        return
    if (a.gradient_error is None) != (b.gradient_error is None):
        yield (
            "refuses gradient" if a.gradient_error else "gives gradient",
            str(a.gradient_error or b.gradient_error)[:150],
        )
        return
    # Second derivatives of half types are rounding errors of rounding errors.
    for what, factor in (("gradients", 30.0), ("seconds", 300.0))[
        : 1 if dtype in ("float16", "bfloat16") else 2
    ]:
        for x, y in zip(getattr(a, what) or (), getattr(b, what) or (), strict=False):
            zero = np.zeros(1)
            if x is None or y is None:
                if (x if x is not None else y if y is not None else zero).any():
                    yield what, "None and numbers"
                    return
            elif words := differ(x, y, dtype, factor):
                yield what, words
                return


def worst(call):
    """The type of least precision among the tensors of a call."""
    order = ("bfloat16", "float16", "float32", "complex64", "float64", "complex128")
    return min(
        (s.dtype for s in call.tensors.values() if s.dtype in order), key=order.index, default="float64"
    )


def against_peer(call, peer):
    return compare(Judged(call, ad), Judged(call, peer), worst(call))


# --- Adjoint against itself -------------------------------------------------------------------------------------------


def on_far(call):
    """On another device all is as on the CPU, to the last bit."""
    import far_device  # noqa: F401

    here, there = Judged(call, ad), Judged(call, ad, device="far:1")
    yield from (("far: " + kind, words) for kind, words in compare(there, here, worst(call)))


def against_itself(call):
    first = Judged(call, ad, second=False)
    for finding in compare(first, Judged(call, ad, "plain", second=False), worst(call)):
        yield ("by layout: " + finding[0], finding[1])
    if first.error is not None:
        return
    yield from on_meta(call, first)
    exact = ("float64", "complex128", *INTEGERS, "bool")
    if worst(call) in exact and all(t in exact for t in first.types) and all(map(_tame, first.results)):
        yield from in_both_modes(call)
    if first.raw and all(isinstance(t, ad.Tensor) for t in first.raw):
        yield from mapped(call)


def _tame(x):
    """Neither NaN nor infinity, where derivatives are a matter of taste."""
    return x.dtype.kind not in "fc" or bool(np.isfinite(x).all())


def on_meta(call, first):
    """Shapes and types without elements; what asks for values may refuse."""
    try:
        _, tensors = call.make(ad)
        results = call.run(ad, {n: t.detach().to("meta") for n, t in tensors.items()})
    except REFUSALS:
        return
    for t, x, dtype in zip(results, first.results, first.types, strict=False):
        if (
            isinstance(t, ad.Tensor)
            and t.device.type == "meta"
            and (tuple(t.shape), name_of(t.dtype)) != (x.shape, dtype)
        ):
            yield "meta", f"{tuple(t.shape)} {name_of(t.dtype)} for {x.shape} {dtype}"


def in_both_modes(call):
    """⟨w, J t⟩ by forward mode is ⟨Jᴴ w, t⟩ by reverse mode; and that of the gradient likewise."""
    names = [n for n, s in call.tensors.items() if s.grad and s.dtype in (*FLOATS, *COMPLEX)]
    if not names:
        return
    _, tensors = call.make(ad)
    primals = [tensors[n].detach() for n in names]
    # So small that some derivative takes it for 0, where it has a kink.
    if not all(_tame(p.numpy()) and not bool(((p != 0) & (p.abs() < 1e-20)).any()) for p in primals):
        return

    def f(*xs):
        rest = {n: t.detach() for n, t in tensors.items()}
        results = call.run(ad, {**rest, **dict(zip(names, xs, strict=True))})
        return [t for t in results if isinstance(t, ad.Tensor) and (t.is_floating_point() or t.is_complex())]

    def paired(values):
        return sum(
            ((weights(v, ad).conj() * v).sum().real.to(ad.float64) for v in values),
            ad.zeros((), dtype=ad.float64),
        )

    def agree(g, what):
        try:
            tangents = tuple(weights(p, ad) for p in primals)
            _, along = ad.func.jvp(g, tuple(primals), tangents)
            leaves = [p.clone().requires_grad_() for p in primals]
            out = g(*leaves)
            grads = (
                ad.autograd.grad(out, leaves, allow_unused=True)
                if out.requires_grad
                else [None] * len(leaves)
            )
        except REFUSALS:
            return
        back = sum(
            (
                (g.conj() * t).sum().real.to(ad.float64)
                for g, t in zip(grads, tangents, strict=True)
                if g is not None
            ),
            ad.zeros((), dtype=ad.float64),
        )
        size = max((float(g.abs().max()) for g in grads if g is not None and g.numel()), default=0.0)
        a, b = float(along), float(back)
        if (np.isfinite(a) or np.isfinite(b)) and not abs(a - b) <= 1e-7 * (1 + size) * sum(
            p.numel() for p in primals
        ):
            yield what, f"forward {a!r}, reverse {b!r}"

    yield from agree(lambda *xs: paired(f(*xs)), "modes")

    def gradient(*xs):
        grads, _ = ad.func.vjp(lambda *ys: paired(f(*ys)), *xs)[1](ad.ones((), dtype=ad.float64)), None
        return paired(grads)

    yield from agree(gradient, "modes, second")


def mapped(call):
    """vmap over two samples that are the same in one call gives that twice."""
    _, tensors = call.make(ad)
    floating = [n for n, t in tensors.items() if t.is_floating_point() or t.is_complex()]
    if not floating:
        return
    given = {n: t.detach() for n, t in tensors.items()}

    def f(*xs):
        return [
            t
            for t in call.run(ad, {**given, **dict(zip(floating, xs, strict=True))})
            if isinstance(t, ad.Tensor)
        ]

    try:
        alone = f(*(given[n].clone() for n in floating))
        batched = ad.vmap(f)(*(ad.stack([given[n], given[n]]) for n in floating))
    except REFUSALS:
        return
    for x, y in zip(alone, batched, strict=True):
        words = differ(numbers(y[1], ad), numbers(x, ad), name_of(x.dtype), 3.0)
        if words or x.dtype != y.dtype:
            yield "vmap", words or f"{y.dtype} for {x.dtype}"
            return


# --- runs -------------------------------------------------------------------------------------------------------------


def judge(seed, families=FAMILIES, peer=None, far=False):
    """The findings of one random call, and the call."""
    call = Call(seed, families)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = on_far(call) if far else against_peer(call, peer) if peer else against_itself(call)
            return call, list(found)
        except Exception as e:  # what no refusal is
            return call, [("raised", f"{e!r:.200}")]


def crashes(call):
    """Whether Adjoint alone crashes on a call: in a process of its own."""
    child = os.fork()
    if not child:
        list(against_itself(call))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0


def judged(first, last, families, peer, far=False, threads=1):
    """(call, findings) of each seed, judged in a process that may crash: then the call is a finding, and the next one goes on."""

    def work(seed):
        call, findings = judge(seed, families, peer, far)
        return call.family, call.name(), repr(call), findings

    while first < last:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "wb") as to:
                for _, judgement in side_by_side(work, range(first, last), threads):
                    pickle.dump(judgement, to)
                    to.flush()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as source:
            while first < last:
                try:
                    yield pickle.load(source)
                except EOFError:
                    break
                first += 1
        os.waitpid(child, 0)
        if first < last:
            call = Call(first, families)
            ours = peer is None or crashes(call)
            yield call.family, call.name(), repr(call), [("crash" if ours else "the peer crashes", "")]
            first += 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", help="a module with the same interface")
    parser.add_argument("--far", action="store_true", help="on the device of tests/far_device.py")
    parser.add_argument("--families", nargs="*", help="only these: " + ", ".join(sorted(FAMILIES)))
    parser.add_argument(
        "--threads", type=int, default=1, help="calls at once; of a crash the call is then not known"
    )
    parser.add_argument("--show", type=int, default=1, help="examples of each finding")
    options = parser.parse_args()
    peer = importlib.import_module(options.peer) if options.peer else None
    if peer:
        peer.set_num_threads(1)
    ad.set_num_threads(1)
    families = {k: v for k, v in FAMILIES.items() if not options.families or k in options.families}
    found, done, known = collections.defaultdict(list), collections.Counter(), collections.Counter()
    last = options.seed + options.calls
    for family, name, call, findings in judged(
        options.seed, last, families, peer, options.far, options.threads
    ):
        done[family] += 1
        for kind, words in findings:
            if peer and ((kind, name) in KNOWN or kind in MORE):
                known[kind, name] += 1
            else:
                found[kind, name].append((call, words))
    for (kind, name), cases in sorted(found.items(), key=lambda item: (item[0][0], -len(item[1]))):
        print(f"{kind}: {name} {len(cases)} times")
        for call, words in cases[: options.show]:
            print(f"    {call}\n    {words}")
    if known:
        print(f"known: {sum(known.values())} of {len(known)} kinds")
    print(
        f"{sum(done.values())} calls, {sum(map(len, found.values()))} findings of {len(found)} kinds; {dict(done)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
