"""Random programs that return tensors which others are made of: gradients must be eager's to the last bit, and so must be what passes free.

A seed makes a function of few leaves, whose lines take what earlier lines made, many of it several times, and which returns some of that. Then
passes go through random results of it, and through what the program makes of leaves and results before and after the call: all at
once or one after the other, with hooks and retained gradients, by leaves or by results, keeping the graph or not. Start
reading at `run`.

    python -m tests.jit.fuzz_results_inside FIRST LAST [WAY ...]
"""

import functools
import pathlib
import random
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import twice  # noqa: E402

import adjoint as ad  # noqa: E402

SHAPE = (3, 3)
ONE = ("sin", "tanh", "exp", "sigmoid", "neg", "t", "double", "mean", "rows", "part", "clone")
TWO = ("add", "sub", "mul", "matmul", "where", "split", "accumulate")


#: Other ways in which a cotangent may lie.
LAYOUTS = (lambda t: (t * 0.3).t().clone().t(), lambda t: t[:, :1].expand(SHAPE), lambda t: t * 0.7)
#: Passes through passes, and what else there is to try.
WAYS = ("second", "by results", "third", "accumulated", "layouts", "written")


class Line:
    """What a line makes: of which earlier ones, and how."""

    def __init__(self, rng, known):
        recent = range(max(0, known - 5), known)
        self.takes = [rng.choice(recent if rng.random() < 0.7 else range(known)) for _ in range(2)]
        self.kind = rng.choice(TWO if rng.random() < 0.6 else ONE)
        self.by = round(rng.uniform(0.3, 1.2), 2)

    def __call__(self, made):
        a, b = (made[k] for k in self.takes)
        kind = self.kind
        if kind in ("sin", "tanh", "sigmoid", "neg", "t", "clone"):
            return getattr(a, kind)()
        if kind == "exp":
            return a.clamp(max=1).exp()
        if kind == "double":
            return a * self.by + a
        if kind == "mean":
            return a - a.mean(0)
        if kind == "rows":
            return a.sum(1, keepdim=True).expand(SHAPE)
        if kind == "part":
            return ad.cat([a[1:], a[:1] * self.by])
        if kind == "split":
            first, second = a.split([1, 2])
            return ad.cat([second, first * b[:1]])
        if kind == "where":
            return ad.where(a > b, a * self.by, b)
        if kind == "accumulate":
            return (a * self.by).add_(b)
        if kind == "matmul":
            return a @ b * 0.5
        return getattr(a, kind)(b)


class Program:
    """A function by its lines; `state` is what it writes in the graph, if it does."""

    def __init__(self, rng):
        self.leaves = rng.randrange(2, 5)
        count = rng.randrange(4, 14)
        self.lines = [Line(rng, self.leaves + k) for k in range(count)]
        inside = range(self.leaves, self.leaves + count)
        self.results = sorted(rng.sample(inside, min(count, rng.randrange(1, 6))))
        if rng.random() < 0.6:
            self.results = sorted({*self.results, inside[-1]})
        rng.shuffle(self.results)
        self.given = [rng.random() < 0.7 for _ in range(self.leaves)]
        # A leaf that is used more often gets a sum of a call, which is then added to what came before.
        self.seldom = [sum(k in line.takes for line in self.lines) <= 2 for k in range(self.leaves)]
        self.state = None
        self.writes = rng.choice(inside) if rng.random() < 0.25 else None

    def __call__(self, *leaves):
        made = list(leaves)
        for line in self.lines:
            made.append(line(made))
        if self.writes is not None:
            self.state.mul_(0.5).add_(made[self.writes])
            made.append(self.state)
        return [made[k] for k in self.results]


def scalar(rng, t):
    return rng.choice([lambda: t.sum(), lambda: (t * t).sum(), lambda: (t * 0.3).sin().mean()])()


def sum_of(gradients):
    """Something to differentiate of what a recorded pass gave; None where it leads nowhere."""
    terms = [(g * g).sum() for g in gradients if g is not None and g.requires_grad]
    return sum(terms[1:], terms[0]) if terms else None


def one_pass(way, rng, seen, some, terms, leaves, ends, keeps):
    """A pass, or some of which each differentiates the one before."""
    grad = functools.partial(ad.autograd.grad, allow_unused=True)
    loss = sum(terms[1:], terms[0])
    if way == "backward":
        loss.backward(retain_graph=keeps)
    elif way in ("leaves", "results"):
        seen.append(grad(loss, ends, retain_graph=keeps))
    elif way == "layouts":  # of cotangents that no recorded pass had
        given = [rng.choice(LAYOUTS)(t.detach()) for t in some]
        seen.append(grad(some, ends, given, retain_graph=keeps))
    elif way == "accumulated":
        loss.backward(create_graph=True)
        if (second := sum_of([leaf.grad for leaf in leaves])) is not None:
            seen.append(grad(second, ends, retain_graph=keeps))
    else:
        for _ in range({"second": 1, "by results": 1, "third": 2}[way]):
            first = grad(loss, ends, create_graph=True)
            seen.append(first)
            if (second := sum_of(first)) is None:
                return
            loss = second + terms[0] if rng.random() < 0.5 else second
        seen.append(grad(loss, leaves if way == "second" else ends, retain_graph=keeps))


def once(program, f, rng, k, ways):
    """One call and passes through it; what is seen."""
    seen = []
    leaves = [twice.numbers(*SHAPE, seed=10 * k + i).requires_grad_() for i in range(program.leaves)]
    program.state = ad.zeros(SHAPE)
    # What takes the leaves outside, before and after the call, and what the call is given of that.
    before = [(leaf * 1.1).sum() for leaf in leaves if rng.random() < 0.4]
    given = [leaf if as_it_is else leaf * 0.9 for leaf, as_it_is in zip(leaves, program.given, strict=True)]
    results = f(*given)
    seen += [twice.picture([results, program.state])]
    results = [t for t in results if t.requires_grad]
    if program.state.requires_grad:
        results.append(program.state)
    for i, t in enumerate(results):
        if rng.random() < 0.25:
            t.retain_grad()
        if rng.random() < 0.25:
            t.register_hook(lambda g, i=i: seen.append((i, g.clone())))
        if rng.random() < 0.15:
            t.register_hook(lambda g: g * 0.5)
    seldom = [leaf for leaf, is_seldom in zip(leaves, program.seldom, strict=True) if is_seldom]
    after = [(leaf * 0.7).cos().sum() for leaf in seldom if rng.random() < 0.4]
    for n in range(rng.randrange(1, 4)):
        some = [t for t in results if rng.random() < 0.5] or results[-1:]
        terms = [scalar(rng, t) for t in some] + [t for t in before + after if rng.random() < 0.5]
        rng.shuffle(terms)
        if not terms:
            continue
        mark, keeps = len(seen), rng.random() < 0.5
        way = rng.choice([w for w in ("backward", "leaves", "results", *ways) if w != "written"])
        ends = rng.sample(leaves, rng.randrange(1, len(leaves) + 1))
        if way not in ("backward", "leaves", "second"):
            ends += rng.sample(results, rng.randrange(len(results) + 1))
        try:
            one_pass(way, rng, seen, some, terms, leaves, ends, keeps)
        except RuntimeError as error:
            if "second time" not in str(error) and "inplace" not in str(error):
                raise
            # Which hooks ran before, and which gradients came, is another matter.
            return [*map(bare, seen[:mark]), "second time" if "second time" in str(error) else "written"]
        if "written" in ways and rng.random() < 0.15:
            with ad.no_grad():
                rng.choice([t for t in [*results, *given, program.state] if 0 not in t.stride()]).mul_(1.25)
        if ways and rng.random() < 0.15:
            rng.choice(results).register_hook(lambda g, n=n: seen.append((n, g.clone())))
    seen += [leaf.grad for leaf in leaves] + [t.grad for t in results if t.retains_grad]
    return bare(seen)


def bare(value):
    """Gradients in bits: their versions say how often they were added to in place."""
    if isinstance(value, ad.Tensor):
        return str(value.dtype), tuple(value.shape), value.requires_grad, twice.bits(value)
    return [bare(v) for v in value] if type(value) in (list, tuple) else value


def run(seed, wrap, ways=(), calls=6):
    """What is seen of each call, and the function."""
    rng = random.Random(seed)
    program = Program(rng)
    f = wrap(program)
    return [once(program, f, random.Random((seed, k).__hash__()), k, ways) for k in range(calls)], f


def difference(seed, ways=()):
    """(words, how many calls were replayed) of one program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = run(seed, lambda f: f, ways)
        found, f = run(seed, ad.jit, ways)
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a != b:
            kinds = [(line.kind, line.takes) for line in f.function.lines]
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), "length")
            return (
                f"seed {seed}, call {k}, at {at}: {b}\nexpected {a}\n{kinds} {f.function.results}\n{f.stats()}",
                0,
            )
    return "", f.stats()["replayed"]


if __name__ == "__main__":
    first, last, *ways = sys.argv[1:]
    sys.exit(bool(twice.each_seed(lambda seed: difference(seed, ways or WAYS), first, last)))
