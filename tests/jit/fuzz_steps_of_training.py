"""Random programs that train: what is seen of each must be the same with its step under `ad.jit` and without.

A seed makes a model of layers, branches, loops, reads of numbers, writes and failures; a step (inference, loss, gradients, a whole step
with optimiser and scheduler); and what happens between its calls: other shapes, modes, learning rates, frozen, replaced and loaded
weights, hooks, flags, threads. Seen are results, errors, parameters with gradients and versions, buffers, attributes,
options, and the generator. Start reading at `run`.

    python tests/jit/fuzz_steps_of_training.py FIRST LAST [THREADS]
"""

import contextlib
import pathlib
import random
import re
import sys
import warnings

TESTS = pathlib.Path(__file__).resolve().parent.parent
for _folder in (TESTS, TESTS / "jit"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from drawn_functions import Doubled  # noqa: E402
from side_by_side import thread_of  # noqa: E402
from twice import each_seed, picture, where  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint import nn  # noqa: E402
from adjoint._replay._check import checking  # noqa: E402
from adjoint.utils.checkpoint import checkpoint  # noqa: E402

WIDTH = 3


class Piece(nn.Module):
    """A layer of one kind; `options` is what the program may change."""

    def __init__(self, kind, rng):
        super().__init__()
        self.kind = kind
        self.threshold = rng.uniform(-1, 1)
        self.count = rng.randrange(3)
        self.fails = False
        self.scale = 1.5
        self.calls = 0
        self.clock = {"t": 0.1 * self.count, "dt": rng.choice([0.25, 0.1, 0.07])}
        self.rates = [rng.uniform(0.5, 1.5), 2]
        self.kept = None
        self.log = []
        self.register_buffer("seen", ad.zeros(()))
        self.register_buffer("running", ad.zeros(WIDTH))
        layers = {
            "linear": lambda: nn.Linear(WIDTH, WIDTH),
            "norm": lambda: nn.LayerNorm(WIDTH),
            "batch": lambda: nn.BatchNorm1d(WIDTH),
            "dropout": lambda: nn.Dropout(0.3),
            "bilinear": lambda: nn.Bilinear(WIDTH, WIDTH, WIDTH),
            "tied": lambda: nn.Linear(WIDTH, WIDTH, bias=False),
            "checkpoint": lambda: nn.Linear(WIDTH, WIDTH),
            "switch": lambda: nn.Linear(WIDTH, WIDTH),
        }
        self.layer = layers[kind]() if kind in layers else None

    def forward(self, x):
        kind = self.kind
        if kind in ("linear", "norm", "batch", "dropout"):
            return self.layer(x)
        if kind == "bilinear":
            return self.layer(x, x.tanh())
        if kind == "tied":
            return self.layer(x) @ self.layer.weight
        if kind == "checkpoint":
            return checkpoint(self.layer, x, use_reentrant=False)
        if kind == "branch":
            return x * 2 if x.detach().sum() > self.threshold else x - 1
        if kind == "item":
            mean = x.detach().mean().item()
            return x * (0.5 if mean > self.threshold else -0.5)
        if kind == "loop":
            for _ in range(self.count):
                x = x.tanh() * self.scale
            return x
        if kind == "inplace":
            x = x * 1.0
            x.mul_(self.scale).add_(1)
            return x
        if kind == "view":
            y = x.clone()
            y[:, 0] = y[:, 1] * 2
            y.select(1, 2).mul_(0.5)
            return y
        if kind == "buffer":
            with ad.no_grad():
                self.seen.add_(x.mean())
            return x + self.seen
        if kind == "kept":
            self.kept = x.detach() * 2
            return x
        if kind == "log":
            self.log.append(x.detach().sum())
            return x
        if kind == "counter":
            self.calls += 1
            return x / self.calls
        if kind == "clock":
            t = self.clock["t"]
            self.clock["t"] += self.clock["dt"]
            return (x * (t + self.clock["dt"] / 2)).sin() + t
        if kind == "decay":
            self.rates[0] *= 0.97
            self.rates[1] += 1
            return x * self.rates[0] - 0.9 ** self.rates[1]
        if kind == "clip":
            norm = x.detach().norm().item()
            return x * (1.5 / norm) if norm > 1.5 else x + norm
        if kind == "search":
            size, y = 1.0, x.detach()
            for _ in range(3):
                if (y * size).sum().item() < self.threshold:
                    break
                size *= 0.5
            return x * size
        if kind == "phase":
            self.clock["t"] += self.clock["dt"]
            return x * min(self.clock["t"], 0.8) if int(self.clock["t"] * 4) % 3 else x * self.clock["t"] ** 2
        if kind == "told":
            self.kept = float(x.detach().mean().item() * 2)
            return x - self.kept
        if kind == "fails":
            y = x.exp()
            if self.fails:
                raise ValueError(f"asked to fail with {tuple(y.shape)}")
            return y.clamp(max=3)
        if kind == "breaks":
            return x if not self.fails else x.reshape(7, 13)
        if kind == "noise":
            return x + ad.rand_like(x)
        if kind == "function":
            return Doubled.apply(x)
        if kind == "hooked":
            x = x * 1.5
            if x.requires_grad:
                x.register_hook(lambda g: g * 0.5)
                x.retain_grad()
            return x.tanh()
        if kind == "running":
            self.running.lerp_(x.detach().mean(0), 0.1)
            return x - self.running.clone()
        if kind == "mask":
            return x.masked_fill(x > self.threshold, 0.0)
        if kind == "nonzero":
            return x + x[x > 0].sum()
        if kind == "sort":
            return x.sort(-1).values.cumsum(0)
        if kind == "switch":
            for p in self.layer.parameters():
                p.requires_grad_(self.count != 1)
            return self.layer(x)
        if kind == "mapped":
            return ad.func.vmap(lambda row: row.sin().sum() * row)(x)
        assert kind == "split"
        a, b = x.split([1, WIDTH - 1], 1)
        return ad.cat([b, a], 1) + a


KINDS = (
    "linear norm batch dropout bilinear tied checkpoint branch item loop inplace view buffer kept log counter fails breaks noise "
    "function mask nonzero sort mapped split switch hooked running clock decay clip search phase told"
).split()
#: What gives results with a graph, through which a pass goes outside: how.
OUTSIDE = ("loss", "graph", "parts", "chain", "features")
STEPS = ("infer", "gradients", "step", "accumulate", "penalty", *OUTSIDE)
PASSES = ("backward", "backward", "retain_graph", "create_graph", "by results", "frozen", "written", "none")


class World:
    """A model, an optimiser, and the step that is tried."""

    def __init__(self, rng):
        ad.manual_seed(rng.randrange(1000))
        # Seldom what is never replayed, so that most programs are.
        often = [k for k in KINDS if k not in ("log", "nonzero", "switch")]
        kinds = [rng.choice(KINDS if rng.random() < 0.15 else often) for _ in range(rng.randrange(1, 5))]
        self.kinds = ["linear", *kinds] if rng.random() < 0.8 else kinds
        self.model = nn.Sequential(*(Piece(kind, rng) for kind in self.kinds))
        self.step_kind = rng.choice(STEPS)
        parameters = list(self.model.parameters()) or [nn.Parameter(ad.ones(WIDTH))]
        make = rng.choice(
            [
                lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9),
                lambda p: ad.optim.Adam(p, lr=0.01),
                lambda p: ad.optim.AdamW(p, lr=0.01, amsgrad=True),
                lambda p: ad.optim.RMSprop(p, lr=0.01),
                lambda p: ad.optim.Adagrad(p, lr=0.01, lr_decay=0.1),
                lambda p: ad.optim.RAdam(p, lr=0.01),
                lambda p: ad.optim.NAdam(p, lr=0.01),
                lambda p: ad.optim.ASGD(p, lr=0.01, t0=4),
                lambda p: ad.optim.Adamax(p, lr=0.01),
                lambda p: ad.optim.Rprop(p, lr=0.01),
            ]
        )
        self.optimizer = make(parameters)
        schedulers = [
            lambda o: ad.optim.lr_scheduler.StepLR(o, 3, 0.5),
            lambda o: ad.optim.lr_scheduler.CosineAnnealingLR(o, 5),
            lambda o: ad.optim.lr_scheduler.ExponentialLR(o, 0.9),
            lambda o: ad.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 8),
        ]
        self.scheduler = rng.choice(schedulers)(self.optimizer) if rng.random() < 0.3 else None
        self.hooks = []
        self.threaded = False

    def step(self, x):
        model, optimizer = self.model, self.optimizer
        kind = self.step_kind
        if kind == "infer":
            with ad.no_grad():
                return model(x)
        if kind == "loss":
            return model(x).square().mean()
        if kind == "graph":
            y = model(x)
            return {"y": y, "mean": [y.mean(), y.detach().max()]}
        parameters = [p for p in model.parameters() if p.requires_grad]
        if kind == "gradients":
            loss = model(x).square().mean()
            return loss.detach(), ad.autograd.grad(
                loss, parameters, allow_unused=True
            ) if parameters else None
        if kind == "penalty":
            x = x.clone().requires_grad_()
            loss = model(x).square().mean()
            (g,) = ad.autograd.grad(loss, [x], create_graph=True, allow_unused=True)
            total = loss + (g.square().sum() if g is not None else 0)
            optimizer.zero_grad()
            total.backward()
            return total.detach()
        if kind == "parts":
            y = model(x)
            return y[0], y[1:].t(), y
        if kind == "chain":
            y = model(x)
            z = (y * y).mean(0)
            return y, z, (z.sum() + y.max(),)
        if kind == "features":
            y = model(x)
            if y.requires_grad:
                y.retain_grad()
            return {"features": y, "loss": y.square().mean()}
        if kind == "step":
            optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if kind == "step":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
        return loss.detach()

    def event(self, rng):
        """Something that happens between two calls."""
        model = self.model
        parameters = list(model.parameters())
        piece = rng.choice(list(model))
        what = rng.choice(
            "train eval freeze replace data load hook unhook tensor_hook scale count fails clear lr zero seed thread dtype "
            "shift kind grad".split()
        )
        if what in ("train", "eval"):
            model.train(what == "train")
        elif what == "freeze" and parameters:
            p = rng.choice(parameters)
            p.requires_grad_(not p.requires_grad)
        elif what == "replace" and piece.layer is not None and hasattr(piece.layer, "bias"):
            if piece.layer.bias is not None:
                piece.layer.bias = nn.Parameter(piece.layer.bias.detach() + 0.5)
        elif what == "data" and parameters:
            p = rng.choice(parameters)
            p.data = p.data * 0.5
        elif what == "load":
            model.load_state_dict(
                {k: v * 0.9 if v.is_floating_point() else v for k, v in model.state_dict().items()}
            )
        elif what == "hook":
            seen = piece.log
            kinds = [
                lambda m, a, y: None,
                lambda m, a, y: y * 1.25,
                lambda m, a, y: seen.append(y.detach().sum()),
            ]
            self.hooks.append(piece.register_forward_hook(rng.choice(kinds)))
        elif what == "unhook" and self.hooks:
            self.hooks.pop().remove()
        elif what == "tensor_hook" and parameters:
            p = rng.choice(parameters)
            if p.requires_grad:
                self.hooks.append(p.register_hook(lambda g: g * 2))
        elif what == "scale":
            piece.scale = rng.choice([0.5, 1.5, 2])
        elif what == "count":
            piece.count = rng.randrange(4)
        elif what == "fails":
            piece.fails = not piece.fails
        elif what == "clear":
            piece.log.clear()
        elif what == "lr":
            self.optimizer.param_groups[0]["lr"] *= 0.5
        elif what == "zero":
            self.optimizer.zero_grad(set_to_none=rng.random() < 0.5)
        elif what == "seed":
            ad.manual_seed(rng.randrange(100))
        elif what == "thread":
            self.threaded = not self.threaded
        elif what == "dtype":
            model.to(rng.choice([ad.float64, ad.float32]))
        elif what == "shift":
            with ad.no_grad():
                for p in parameters:
                    p.add_(0.01)
        elif what == "kind":
            piece.threshold = rng.uniform(-1, 1)
        elif what == "grad":
            for p in parameters:
                p.grad = None if rng.random() < 0.5 else ad.ones_like(p)
        return what

    def look(self):
        """All that can be seen, but for what a call gave."""
        own = [
            (m.calls, m.kept, list(m.log), m.seen, m.training, m.scale, m.count, m.clock, m.rates)
            for m in self.model
        ]
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups]
        state = [self.optimizer.state.get(p) for g in self.optimizer.param_groups for p in g["params"]]
        seen = [own, list(self.model.buffers()), groups, state, ad.get_rng_state()]
        return picture([*seen, list(self.model.parameters())])


class Close:
    """Gradients to which several nodes bring terms: those of a replayed call add up what they bring in another order."""

    def __init__(self, gradients):
        self.values = [None if g is None else g.detach().double().flatten().tolist() for g in gradients]

    def __eq__(self, other):
        # What is left of large terms that cancel (a bias before a normalisation) is as exact as these are.
        largest = max((abs(x) for g in self.values if g for x in g if x - x == 0), default=0)

        def equal(a, b):
            size = 1e-4 * (1 + max(map(abs, a), default=0)) + 1e-6 * largest
            return len(a) == len(b) and all(
                x == y or abs(x - y) <= size or x != x and y != y for x, y in zip(a, b)
            )

        return len(self.values) == len(other.values) and all(
            a is b or (a is not None and b is not None and equal(a, b))
            for a, b in zip(self.values, other.values)
        )

    __hash__ = None

    def __repr__(self):
        return repr(self.values)


def passes(world, leaves, x, way):
    """A backward pass of some kind through results; what comes of it but for `.grad`."""
    total = sum((t * t).sum() for t in leaves)
    ends = [p for p in (*world.model.parameters(), x) if p.requires_grad]
    if way in ("backward", "retain_graph"):
        total.backward(retain_graph=way == "retain_graph")
        if way == "retain_graph":
            total.backward()
        return picture([t.grad for t in leaves if t.retains_grad])
    if way == "by results":
        seen = [ad.autograd.grad(total, leaves, retain_graph=True)]
        seen += [ad.autograd.grad(t.sum(), leaves, retain_graph=True, allow_unused=True) for t in leaves]
        return picture(seen)
    if way == "written":
        with ad.no_grad():
            for p in world.model.parameters():
                p.mul_(0.99)
        return picture(ad.autograd.grad(total, ends, allow_unused=True))
    frozen = [p for p in world.model.parameters() if p.requires_grad][::2] if way == "frozen" else []
    for p in frozen:
        p.requires_grad_(False)
    try:
        gradients = ad.autograd.grad(total, leaves + [x] * x.requires_grad, create_graph=True)
    finally:
        for p in frozen:
            p.requires_grad_(True)
    loss = sum((g * g).sum() for g in gradients if g.requires_grad)
    seconds = ad.autograd.grad(loss, [*ends, *leaves], allow_unused=True) if ends else []
    return Close([*gradients, *seconds])


def once(world, step, x, way):
    """What a call gives, or how it fails, and what a pass through it leaves."""
    result = []

    def failed(error):
        # Which node found it, and so which of several tensors it names, is another.
        words = re.sub(r"\w+Backward\d", "a node", str(error))
        for phrase in ("modified by an inplace operation", "the size or type of one of the variables"):
            words = phrase if phrase in words else words
        result.append((type(error).__name__, words))

    def call():
        try:
            y = step(x)
        except Exception as error:
            return failed(error)
        result.append(picture(y))
        leaves = [t for t in ad.tree.leaves(y) if isinstance(t, ad.Tensor) and t.requires_grad]
        if leaves and way != "none":
            try:
                result.append(passes(world, leaves, x, way))
            except Exception as error:
                failed(error)

    if world.threaded:
        thread = thread_of(call)
        thread.start()
        thread.join()
    else:
        call()
    return result


def run(seed, wrap, calls=14):
    """(what is seen, in words and pictures; the step) of a program."""
    rng = random.Random(seed)
    world = World(rng)
    step = wrap(world.step)
    seen = [(f"{world.step_kind} of {world.kinds}", world.look())]
    shapes = [(4, WIDTH), (2, WIDTH)]
    for k in range(calls):
        words = [world.event(rng) for _ in range(rng.choice([0, 0, 0, 0, 1, 2]))] if k > 2 else []
        shape = shapes[rng.random() < 0.2]
        dtype = next((p.dtype for p in world.model.parameters()), ad.float32)
        x = ad.tensor([[rng.uniform(-1, 1) for _ in range(shape[1])] for _ in range(shape[0])], dtype=dtype)
        if rng.random() < 0.2:
            x.requires_grad_()
        result = once(world, step, x, rng.choice(PASSES))
        seen.append((f"call {k} after {words}", (result, picture(x), world.look())))
    return seen, step


def difference(seed):
    """(words, how many calls were replayed) of one program; of every fourth the replays are checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = run(seed, lambda f: f)
        with checking() if seed % 4 == 0 else contextlib.nullcontext():
            found, step = run(seed, ad.jit)
    for (words, a), (_, b) in zip(expected, found, strict=True):
        if place := where(a, b):
            story = "\n".join(w for w, _ in expected)
            return f"seed {seed}: {words}\n{place}\n{step.stats()}\n{story}", 0
    return "", step.stats()["replayed"]


if __name__ == "__main__":
    sys.exit(bool(each_seed(difference, *sys.argv[1:])))
