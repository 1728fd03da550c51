"""What `fuzz_functions` draws: a state of the program's, and functions of source code over it. Start reading at `Drawn`."""

import contextlib
import pathlib
import random
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
for _folder in (TESTS, TESTS / "jit"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


import adjoint as ad  # noqa: E402
from adjoint import nn  # noqa: E402
from adjoint.utils.checkpoint import checkpoint  # noqa: E402

DTYPES = (
    [ad.float64] * 4 + [ad.float32] * 4 + [ad.float16, ad.bfloat16, ad.complex64, ad.complex128, ad.int64]
)
#: From 1,024 elements on loops are drawn together, from 32 KB on results have memory of their own.
SIZES = (3, 3, 3, 4, 5, 33, 72)

# --- statements: $ is a tensor, # a number ------------------------------------------------------------------------------

MAKES = """
$.sin() | $ * $ | $ + $ | $ - # | $ * # | ($ @ $).tanh() | $.tanh() * # | $.softmax(-1) | $.sum(0) | $.mean(-1, keepdim=True)
ad.where($ > $, $, $) | $.clone() | $.detach() | $.cumsum(0).tanh() | ad.stack([$, $]).sum(0) | ad.cat([$, $])[1:] | $.sort(-1).values
$.max(-1).values | $.conj() | $.real | $.abs() | ad.rand_like($) | nn.functional.dropout($, 0.3) | $.half() | $.to(ad.float64) | $.bfloat16()
ad.zeros_like($) | ad.ones(3) * # | $ / ($.abs() + 1) | $.norm() | $.sigmoid() | nn.functional.layer_norm($, $.shape[-1:]) | $.relu()
nn.functional.linear($, W.p) | $.pow(2).mean() | $ * ad.tensor(#) | ad.full_like($, #) | $.var(0) | -$ | $.exp().clamp(max=2) | $ ** 2
$.argmax(-1) | $.logsumexp(0) | ad.lerp($, $, 0.3) | ad.addcmul($, $, $, value=#) | $.contiguous() | $ * $.sum() | $ == $ | $.float().std()
ad.einsum('ij,kj->ik', $, $).tanh() | $.roll(1, 0) | $.flip(0) | $.index_select(0, ad.tensor([1, 0])) | $.masked_fill($ > #, 0) | ad.tensor(#)
""".replace("\n", " | ")
VIEWS = """
$.t() | $[0] | $[:, 1] | $[1:] | $[::2] | $.view(-1) | $.reshape(-1)[1:] | $.diagonal() | $.unbind(0)[1] | $.chunk(2)[0] | $.expand(2, -1, -1)[1]
$.unsqueeze(0).squeeze(0) | $.detach() | $[:2, :2] | $.transpose(0, -1) | $.view_as($) | $.narrow(0, 1, 2) | $.real | $.conj() | $ | $.data
""".replace("\n", " | ")
WRITES = """
$.add_($) | $.mul_($) | $.mul_(#) | $.copy_($) | $.sin_() | $.tanh_() | $.zero_() | $.fill_(#) | $[0] = $[1] | $[0] = # | $[:, 1].mul_(#) | $.clamp_(-1, 1)
ad.add($, $, out=$) | ad.mul($, $, out=$) | ad.matmul($, $, out=$) | ad.sum($, 0, out=$) | ad.sin($, out=$) | $.masked_fill_($ > #, #) | $.lerp_($, 0.5)
$.index_add_(0, ad.tensor([1, 1]), $[:2]) | $[ad.tensor([0, 2])] = $[:2] | $.uniform_() | $.relu_() | $.addmm_($, $, alpha=0.1) | $.addcmul_($, $, value=#)
$.t_() | $.detach_() | $.data = $.data * 0.5 | $ += $ | $ *= # | $.sub_($) | $[$ > #] = 0 | $.squeeze_() | $.set_($) | $.neg_() | $.index_fill_(0, ad.tensor([0]), #)
""".replace("\n", " | ")
STATE = """
W.kept = $ | W.list[0] = $ | W.dict['x'] = $ | W.n *= 0.9 | W.k += 1 | W.list.append(#) | W.kept = ($, $) | W.dict['n'] = # | W.buffer = $ | W.pair = (W.n, $)
W.list[1] = W.list[0] | W.kept = None | W.dict.pop('x', None) | W.p.grad = None | W.k = 0 | W.n = $.sum().item() | W.numbers.append(W.n)
W.p.register_hook(lambda g: g * 0.5) | W.handles.append($.register_hook(W.hook())) | W.handles.pop().remove() | $.register_hook(lambda g: g * n)
$.register_hook(lambda g: g * W.n + W.p.detach().sum()) | W.optimizer.zero_grad() | W.optimizer.step() | W.module.load_state_dict(W.module.state_dict()) | W.p.requires_grad_(W.k % 2 == 0)
""".replace("\n", " | ")
PASSES = """
$.abs().sum().backward(retain_graph=True) | ad.func.grad(lambda z: (z * $).abs().sum())($) | ad.func.jvp(lambda z: z * $, ($,), ($,))[1]
ad.func.vmap(lambda z: z * $[0])($) | ad.autograd.grad($.abs().sum(), W.p)[0] | ad.autograd.grad($.abs().sum(), W.p, create_graph=True)[0]
checkpoint(lambda z: z.sin() * W.p, $, use_reentrant=False) | checkpoint(lambda z: z.sin() * z, $, use_reentrant=True) | Doubled.apply($)
ad.autograd.grad($.abs().sum(), $)[0] | ad.func.vjp(lambda z: z * z, $)[1]($)[0] | W.module($) | ad.func.functional_call(W.module, {'weight': $}, ($,))
ad.func.vmap(ad.func.grad(lambda z: (z * z).abs().sum()))($) | ad.func.jacrev(lambda z: z * $)($[0])[0] | ad.func.hessian(lambda z: (z * z * z).sum())($[0])
""".replace("\n", " | ")
CALLS = """
f($, $, #) | f($, $, n) | f($, $, #) | ad.func.vmap(lambda z: f(z, $, 1))($) | ad.func.grad(lambda z: first(f(z, $, #)).abs().sum())($) | jit(lambda z: z * $ + n)($)
checkpoint(lambda z: first(f(z, $, #)), $, use_reentrant=False) | ad.func.jvp(lambda z: first(f(z, $, #)), ($,), ($,))[1] | jit(ad.func.grad(lambda z: (z * $).sum()))($)
ad.func.vmap(lambda z: first(f(z, z, 1)))($) | jit(lambda z: first(f(z, $, #)))($)
""".replace("\n", " | ")
FORMS = {
    kind: [form.strip() for form in text.split(" | ") if form.strip()]
    for kind, text in {
        "make": MAKES, "view": VIEWS, "write": WRITES, "state": STATE, "pass": PASSES, "call": CALLS
    }.items()
}  # fmt: skip
BLOCKS = """
if $.abs().sum().item() > #: | if W.k % 2: | if n > 0.5: | for _ in range(W.k % 3): | with ad.no_grad(): | with ad.enable_grad(): | for _ in range(2):
with ad.autocast('cpu', dtype=ad.bfloat16): | if $.sum() > $.mean(): | with ad.inference_mode(): | if $.requires_grad: | if W.kept is not None:
"""
BLOCKS = [form.strip() for form in BLOCKS.replace("\n", " | ").split(" | ") if form.strip()]
RESULTS = (
    "$ | $, $ | [$, $, W.buffer] | {'x': $, 'y': ($, n)} | None | $, # | $.sum(), $ | $, $.t() | a | W.buffer | $.detach(), $ | $, W.k"
).split(" | ")
READ = ["W.p", "W.q", "W.buffer", "W.view", "W.list[0]", "W.kept", "W.dict['x']", "W.module.weight"]


class Doubled(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + x * 0


def _halve(p):
    with ad.no_grad():
        p.grad.mul_(0.5)


class World:
    """What functions read and change beside their arguments."""

    hook_scale = 0.5

    def __init__(self, seed):
        rng = random.Random(seed)
        self.size, self.dtype = rng.choice(SIZES), rng.choice(DTYPES)
        self.generator = ad.Generator().manual_seed(seed)
        parameter = self.dtype if self.dtype != ad.int64 else ad.float32
        self.p = nn.Parameter(self.drawn(dtype=parameter))
        self.q = nn.Parameter(self.drawn(dtype=parameter)[0].clone())
        self.buffer = self.drawn()
        self.view = rng.choice([lambda b: b[1:], lambda b: b.t(), lambda b: b.view(-1), lambda b: b])(
            self.buffer
        )
        self.list, self.dict, self.kept = [self.drawn(), self.buffer], {"x": self.drawn(), "n": 1}, None
        self.pair, self.numbers, self.n, self.k = (), [], 0.75, rng.randrange(3)
        self.module = nn.Linear(self.size, self.size, dtype=parameter)
        with ad.no_grad():
            self.module.weight.copy_(self.drawn(dtype=parameter))
            self.module.bias.fill_(0.5)
        make = rng.choice(
            [
                lambda p: ad.optim.SGD(p, lr=0.1),
                lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
                lambda p: ad.optim.Adam(p, lr=0.01, foreach=rng.random() < 0.5),
            ]
        )
        self.optimizer = make([self.p, self.q])
        #: Hooks have numbers of their own, so that they change no other program.
        self.hooks, self.handles = random.Random(seed + 7), []
        if self.hooks.random() < 0.3:
            for p in (self.p, self.q, self.module.weight):
                for _ in range(self.hooks.randrange(3)):
                    self.set_hook(p)

    def hook(self):
        """A hook of a tensor."""

        def counts(g):
            self.k = (self.k + 1) % 3

        def decides(g):
            return g * 0.5 if self.k % 2 else g

        def scaled(g, scale=2):
            return g * scale

        return self.hooks.choice(
            [counts, decides, scaled, lambda g: g * self.dict.get("n", 1), lambda g: g - 1, lambda g: None]
        )

    def set_hook(self, p):
        if self.hooks.random() < 0.7:
            self.handles.append(p.register_hook(self.hook()))
        elif self.hooks.random() < 0.5:
            self.handles.append(p.register_post_accumulate_grad_hook(_halve))
        else:
            node = p.view_as(p).grad_fn.next_functions[0][0]
            self.handles.append(node.register_prehook(lambda g: (g[0] * self.hook_scale,)))

    def drawn(self, *shape, dtype=None):
        x = ad.rand(*(shape or (self.size, self.size)), generator=self.generator, dtype=ad.float64) * 2 - 0.8
        dtype = dtype or self.dtype
        return (x * 3 if dtype == ad.int64 else x + 0.3j if dtype.is_complex else x).to(dtype)

    def argument(self, kind, others):
        """A tensor of a layout."""
        x = self.drawn()
        if kind == "fresh":
            return x
        if kind == "transposed":
            return x.t()
        if kind == "strided":
            return self.drawn(self.size, 2 * self.size)[:, ::2]
        if kind == "part":
            return self.drawn(self.size + 1, self.size)[1:]
        if kind == "expanded":
            return x[0].expand(self.size, -1)
        if kind == "overlapping":
            return self.drawn(3 * self.size).as_strided((self.size, self.size), (2, 1))
        if kind == "leaf":
            return x.requires_grad_(self.dtype != ad.int64)
        if kind == "tracked":
            return self.p * 0.5
        if kind == "conjugate":
            return x.conj()
        if kind in ("buffer", "view of buffer") and isinstance(self.buffer, ad.Tensor):
            return self.buffer if kind == "buffer" else self.buffer.view_as(self.buffer)
        if kind == "parameter":
            return self.p
        if kind == "result" and others:
            return others[-1]
        if kind == "again" and others:
            return others[0]
        if kind == "its transpose" and others:
            return others[0].t()
        return x


ARGUMENTS = (
    "fresh fresh fresh transposed strided part expanded overlapping leaf tracked conjugate buffer parameter again result".split()
    + ["view of buffer", "its transpose"]
)

# --- programs -----------------------------------------------------------------------------------------------------------


def first(value):
    """The first tensor of a result."""
    return tensors_of(value)[0]


class Drawn:
    """The functions of a seed, as lines of source, each drawn and tried at once."""

    def __init__(self, seed, random_numbers=True):
        self.rng = random.Random(seed)
        self.seed, self.random_numbers = seed, random_numbers
        self.space = space_of(seed)
        self.sources = []
        for k in range(self.rng.choice((1, 1, 2, 2, 3, 4))):
            self.sources.append(self.function(k))
            exec(self.sources[-1], self.space)
        self.wrapped = [self.rng.random() < 0.8 for _ in self.sources[1:]] + [True]

    def filled(self, form, names):
        rng = self.rng

        def tensor(_):
            return rng.choice(READ) if rng.random() < 0.25 else rng.choice(names[-6:] + ["a", "b"])

        form = re.sub(r"\$", tensor, form)
        form = re.sub("#", lambda _: rng.choice(("n", "W.n", "0.5", "1.25", "0.1 * W.k", "n + 1")), form)
        return re.sub(r"\bf\(", lambda _: f"f{rng.randrange(len(self.sources))}(", form)

    def statement(self, names, depth=0):
        """Lines of a statement, and the name of what it makes, if anything."""
        rng = self.rng
        if depth < 2 and rng.random() < 0.13:
            inner = [line for _ in range(rng.randint(1, 3)) for line in self.statement(names, depth + 1)[0]]
            return [self.filled(rng.choice(BLOCKS), names), *("    " + line for line in inner)], None
        kinds = ["make"] * 6 + ["view"] * 3 + ["write"] * 5 + ["state"] + ["pass"] + ["call"] * 2
        kind = rng.choice(kinds if self.sources else kinds[:-2])
        form = rng.choice(FORMS[kind])
        if not self.random_numbers and re.search("rand|dropout|uniform", form):
            form = "$ + 1"
        text = self.filled(form, names)
        if kind in ("write", "state") or ".backward(" in text:
            return [text], None
        name = f"t{len(names)}" if depth == 0 else rng.choice(names)
        return [f"{name} = {text}"], name if depth == 0 else None

    def function(self, k):
        rng, names = self.rng, ["a", "b"]
        world = self.space["W"]
        local = {**self.space, "a": world.drawn(), "b": world.drawn() * 1, "n": 0.3}
        if rng.random() < 0.4:
            local["a"] = world.drawn().t().requires_grad_(world.dtype != ad.int64)
        lines = []
        for _ in range(rng.randint(2, 9)):
            text, name = self.statement(names)
            with contextlib.suppress(
                RuntimeError, IndexError, ValueError, TypeError, AttributeError, KeyError
            ):
                exec("\n".join(text), local)
                if name:
                    if not isinstance(local[name], ad.Tensor) and "f" not in text[0]:
                        continue
                    if not isinstance(local[name], ad.Tensor):
                        text = [*text, f"{name} = first({name})"]
                        exec(text[-1], local)
                    if local[name].numel() > 4 * world.size**2:
                        continue
                    names.append(name)
                lines += text
        for _ in range(20):
            result = self.filled(rng.choice(RESULTS), names)
            try:
                eval(result, local)
            except (RuntimeError, IndexError, ValueError, TypeError, AttributeError, KeyError):
                continue
            break
        else:
            result = "a"
        return "\n".join([f"def f{k}(a, b, n):", *("    " + s for s in lines), f"    return {result}"])


def space_of(seed, jit=lambda f: f):
    return {
        "ad": ad,
        "nn": nn,
        "W": World(seed),
        "jit": jit,
        "first": first,
        "checkpoint": checkpoint,
        "Doubled": Doubled,
    }


def tensors_of(value):
    return [t for t in ad.tree.leaves(value) if isinstance(t, ad.Tensor)]
