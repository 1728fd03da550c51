"""Random functions that call each other, over tensors that share memory: what is seen of each program must be the same with its
functions under `ad.jit` and without.

A seed makes some tensors in all kinds of layouts and types, an object `W` with parameters, buffers, views of them, containers
and numbers, up to four functions of source code, of which later ones call earlier ones (plainly, in `vmap`, in derivatives, in
`checkpoint`), and what happens between calls: arguments that alias each other or what the functions read, results that are
written or dropped, memory that is given another tensor, loaded state, passes, threads. Statements are tried while they are drawn,
and those that raise are left out. Seen are results, errors, all tensors of `W`, which tensors share memory, and the generator.
Start reading at `run`.

Passes outside keep the graph: the results of a replayed call share nodes, which a pass frees together.

    python tests/jit/fuzz_functions.py FIRST LAST [THREADS]
"""

import contextlib
import gc
import pathlib
import random
import re
import sys
import warnings

TESTS = pathlib.Path(__file__).resolve().parent.parent
for _folder in (TESTS, TESTS / "jit"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from drawn_functions import ARGUMENTS, Drawn, first, space_of, tensors_of  # noqa: E402
from side_by_side import thread_of  # noqa: E402
from twice import each_seed, picture, where  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint._replay._check import checking  # noqa: E402


def memory_of(t):
    try:
        return t.untyped_storage().data_ptr() if t.numel() else 0
    except RuntimeError:  # escaped from a transform
        return 0


def look(space, *more):
    """All that can be seen, and who shares memory with whom."""
    W = space["W"]
    state = [W.optimizer.state.get(p) for p in (W.p, W.q)]
    values = {
        k: v for k, v in vars(W).items() if k not in ("module", "optimizer", "generator", "hooks", "handles")
    }
    values = [values, list(W.module.parameters()), state, more]
    tensors = tensors_of(values)
    where = [memory_of(t) for t in tensors]
    relations = [(where.index(p), [t is u for u in tensors].index(True)) for p, t in zip(where, tensors)]
    return seen(values), relations, ad.get_rng_state().sum().item()


def seen(value):
    """As `picture`; of a view that has no history any more, its elements."""
    if isinstance(value, ad.Tensor):
        try:
            return picture(value)
        except RuntimeError as error:
            escaped = "vmap" in str(error)
            return (
                re.sub(r"Output \d+ of \w+", "", str(error))[:40],
                "" if escaped else str(value.detach().tolist()),
            )
    if isinstance(value, dict):
        return [(k, seen(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [seen(v) for v in value])
    return picture(value)


class Close:
    """Gradients to which several nodes bring terms: a replayed call adds up in another order."""

    def __init__(self, gradients):
        given = [g for g in gradients if g is not None]
        self.kinds = [g is not None and (g.dtype, g.shape, g.requires_grad) for g in gradients]
        self.values = [v for g in given for v in g.detach().to(ad.complex128).flatten().tolist()]
        self.eps = max(
            (
                1e-9
                if g.dtype in (ad.float64, ad.complex128)
                else 1e-3
                if g.dtype in (ad.float32, ad.complex64)
                else 0.2
                for g in given
            ),
            default=0,
        )

    def __eq__(self, other):
        if not isinstance(other, Close):
            return False
        size = max((abs(v) for v in self.values if abs(v) < 1e300), default=0)
        return self.kinds == other.kinds and all(
            v == w
            or v != v
            or w != w
            or abs(v - w) <= self.eps * (1 + size)
            or abs(v) > 1e4
            and self.eps > 0.1
            for v, w in zip(self.values, other.values, strict=True)
        )

    __hash__ = None

    def __repr__(self):
        return repr((self.kinds, self.values))


def failed(error):
    # Which node found it, and so which of several tensors it names, is another.
    words = re.sub(r"\w+Backward\d*|(?<=^Output )\d+ of \w+", "a node", str(error)).partition(". ")[0]
    for phrase in ("modified by an inplace operation", "the size or type of one of the variables"):
        words = phrase if phrase in words else words
    return type(error).__name__, words[:80]


def event(rng, space, held):
    """Something that happens between two calls."""
    W = space["W"]
    what = rng.choice(
        "write write drop drop swap data load number count lr collect list grad zero pass none view dtype hook unhook".split()
    )
    tensors = tensors_of(held)
    if what == "write" and tensors:
        with ad.no_grad() if rng.random() < 0.7 else contextlib.nullcontext():
            rng.choice(tensors).mul_(0.5)
    elif what == "drop":
        held.clear()
    elif what == "swap":
        W.buffer = W.buffer.clone() if rng.random() < 0.5 else W.drawn()
    elif what == "data":
        W.p.data = W.p.data.t() if rng.random() < 0.5 else W.p.data * 0.5
    elif what == "load":
        W.module.load_state_dict({k: v * 0.5 for k, v in W.module.state_dict().items()})
    elif what == "number":
        W.n = rng.choice((0.25, 0.5, 2.0, 1))
    elif what == "count":
        W.k = rng.randrange(4)
    elif what == "lr":
        W.optimizer.param_groups[0]["lr"] *= 0.5
    elif what == "collect":
        gc.collect()
    elif what == "list":
        W.list = [W.drawn(), W.view]
    elif what == "grad":
        W.p.grad = rng.choice([None, ad.ones_like(W.p)])
    elif what == "zero":
        W.optimizer.zero_grad(set_to_none=rng.random() < 0.5)
    elif what == "view":
        W.view = W.buffer[:2]
    elif what == "dtype":
        W.buffer = W.buffer.to(ad.float32)
    elif what == "hook" and W.p.requires_grad:
        W.set_hook(rng.choice([W.p, W.q, W.module.weight]))
    elif what == "unhook":
        W.handles.pop(rng.randrange(len(W.handles))).remove()
    elif what == "pass":
        return what, outside(rng, space, held)
    return what, None


def outside(rng, space, held):
    """A pass through what calls gave."""
    W = space["W"]
    roots = [t for t in tensors_of(held) if t.requires_grad and t.numel()][-4:]
    if not roots:
        return None
    way = rng.randrange(4)
    total = sum((t * t.detach().conj()).sum().abs().double() for t in roots)
    ends = [t for t in (W.p, W.q, *roots[:1]) if t.requires_grad]
    gradients = ad.autograd.grad(total, ends, allow_unused=True, create_graph=way == 0, retain_graph=True)
    if way == 0:
        again = sum(g.abs().sum().double() for g in gradients if g is not None and g.requires_grad)
        if isinstance(again, ad.Tensor):
            gradients += ad.autograd.grad(again, ends, allow_unused=True, retain_graph=True)
    return Close(gradients)


def run(drawn, wrap, calls=11):
    """What is seen, (words, pictures) by call; the jitted functions."""
    rng = random.Random(drawn.seed + 1)
    ad.manual_seed(drawn.seed)
    made = []

    def jit(f):
        made.append(wrap(f))
        return made[-1]

    space = space_of(drawn.seed, wrap)
    for k, (source, wrapped) in enumerate(zip(drawn.sources, drawn.wrapped, strict=True)):
        exec(compile(source, f"<program {drawn.seed}>", "exec"), space)
        if wrapped:
            space[f"f{k}"] = jit(space[f"f{k}"])
    W, held, story = space["W"], [], []
    kinds = [rng.choice(ARGUMENTS), rng.choice(ARGUMENTS)]
    way = rng.choice(("plain", "plain", "plain", "plain", "vmap", "grad", "no_grad"))
    quiet, varies, in_thread = rng.random() < 0.5, rng.random() < 0.4, False
    for k in range(calls):
        told = []
        for _ in range(0 if quiet and k < 5 else rng.choice((0, 0, 1, 2))):
            try:
                told.append(event(rng, space, held))
            except Exception as error:
                told.append(failed(error))
        if rng.random() < 0.1:
            kinds[rng.randrange(2)] = rng.choice(ARGUMENTS)
        in_thread ^= rng.random() < 0.05
        try:
            a = W.argument(kinds[0], tensors_of(held))
            b = W.argument(kinds[1], [a, *tensors_of(held)])
        except RuntimeError:  # of what a vmap() left, say
            a = b = W.drawn()
        n = rng.choice((0.3, 0.7, 1.5)) if varies else 0.3
        f = space[f"f{rng.randrange(len(drawn.sources)) if rng.random() < 0.1 else len(drawn.sources) - 1}"]
        outcome = []

        def call(f=f, a=a, b=b, n=n, outcome=outcome):
            try:
                if way == "vmap":
                    outcome.append(
                        jit(lambda x, y: ad.func.vmap(lambda z: f(z, y, n))(x))(a, b)
                        if k % 2
                        else ad.func.vmap(lambda z: f(z, b, n))(a)
                    )
                elif way == "grad":
                    outcome.append(ad.func.grad(lambda z: first(f(z, b, n)).abs().sum())(a))
                else:
                    with ad.no_grad() if way == "no_grad" else contextlib.nullcontext():
                        outcome.append(f(a, b, n))
            except Exception as error:
                outcome.append(failed(error))

        if in_thread:
            thread = thread_of(call)
            thread.start()
            thread.join()
        else:
            call()
        story.append(
            (f"call {k} ({way}, {kinds}) after {[w for w, _ in told]}", [told, look(space, a, b, outcome)])
        )
        # What grows from call to call would take all memory.
        small = all(t.numel() <= 10_000 for t in tensors_of(outcome))
        held.append(outcome[0] if small else None)
        if rng.random() < 0.3:
            try:
                story.append(("pass", outside(rng, space, held[-1:])))
            except Exception as error:
                story.append(("pass", failed(error)))
        del held[:-4], a, b, outcome, call
    story.append(("at the end", look(space, held)))
    return story, made


def compare(drawn):
    """(words, how many calls were replayed) of one program; of every fourth the replays are checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = run(drawn, lambda f: f)
        with checking() if drawn.seed % 4 == 0 else contextlib.nullcontext():
            found, made = run(drawn, ad.jit)
    replayed = sum(f.stats()["replayed"] for f in made)
    for (words, a), (_, b) in zip(expected, found, strict=True):
        if place := where(a, b):
            code = "\n".join(drawn.sources)
            stats = "\n".join(str(f.stats()) for f in made)
            return (
                f"seed {drawn.seed}: {words}\n{place[:1500]}\n{stats}\n{code}\nwrapped {drawn.wrapped}",
                replayed,
            )
    return "", replayed


def shrunk(drawn):
    """Leave out lines of the functions for as long as the program differs."""
    again = True
    while again:
        again = False
        for k, source in enumerate(drawn.sources):
            lines = source.splitlines()
            for at in range(len(lines) - 2, 0, -1):
                drawn.sources[k] = "\n".join(lines[:at] + lines[at + 1 :])
                try:
                    smaller = compare(drawn)[0]
                except SyntaxError:
                    smaller = ""
                if smaller and not smaller.partition(": ")[2].startswith("NameError"):
                    lines, again = lines[:at] + lines[at + 1 :], True
                drawn.sources[k] = "\n".join(lines)
    return compare(drawn)[0]


def drawn_of(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ad.manual_seed(seed)
        return Drawn(seed)


def difference(seed):
    return compare(drawn_of(seed))


def small(seed):
    """As `difference`, with what differs made small."""
    print(f"\r{seed}", end="", file=sys.stderr, flush=True)
    drawn = drawn_of(seed)
    words, again = compare(drawn)
    return words and shrunk(drawn) or words, again


if __name__ == "__main__":
    ad.set_memory_limit(1 << 30)  # a statement that takes more (a Jacobian in two vmaps) is not drawn
    sys.exit(bool(each_seed(small, *sys.argv[1:])))
