"""The whole surface beside torch: some 450 calls of public functions at three sizes, forward and with gradients.

    python -m benchmarks.surface                          # the table: geometric means by family and size, calls below 0.9
    python -m benchmarks.surface --only "linalg large"    # calls whose "size family call" contains the words
    python -m benchmarks.surface --below 1.2 --threads 2 --json out.json

Each call is a line of text, evaluated with `t` (the library) and with tensors of the size (`scene`). The two libraries take turns, and
the minimum of many runs counts: read a ratio (torch's time over Adjoint's) to a tenth on a quiet machine, to ±30 % on a busy one. Without
torch only Adjoint's times are printed. Start reading at `main`.
"""

import argparse
import json
import math
import random
import sys
import time

from benchmarks import harness

#: The calls of a family, separated by semicolons.
UNARY = """
    abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh cosh tanh asinh
    atanh sigmoid relu erf erfc erfinv lgamma digamma floor round sign trunc frac logit sinc i0 nan_to_num
"""
FAMILIES = {
    "unary": ";".join(f"t.{name}(sx)" for name in UNARY.split()),
    "binary": """
        x+y ; x-y ; x*y ; x/y ; x**2 ; x**y ; t.maximum(x,y) ; t.atan2(x,y) ; t.hypot(x,y) ; t.fmod(x,y) ;
        t.remainder(x,y) ; t.logaddexp(x,y) ; t.where(x>y,x,y) ; x>y ; (x>y)&(y>0.5) ; x+y[0] ; x*y[:,:1] ;
        t.lerp(x,y,0.3) ; t.addcmul(x,y,y) ; t.clamp(x,0.2,0.8) ; x.to(t.float64) ; x.to(t.bfloat16) ;
        x.half() ; x.long() ; x.T+y ; x.T.contiguous() ; t.copysign(x,y) ; x+1 ; 2-x ; t.isclose(x,y) ;
        t.xlogy(x,y)
    """,
    "reduce": """
        x.sum() ; x.sum(0) ; x.sum(1) ; x.mean(1) ; x.var(0) ; x.var(1) ; x.std() ; x.max() ; x.amax(0) ;
        x.max(1).values ; x.argmax(1) ; x.argmax(0) ; x.prod(1) ; x.norm() ; x.norm(dim=1) ; t.logsumexp(x,1) ;
        t.logsumexp(x,0) ; t.softmax(x,1) ; t.softmax(x,0) ; t.log_softmax(x,1) ; x.cumsum(0) ; x.cumsum(1) ;
        x.cumprod(1) ; t.logcumsumexp(x,1) ; x.median() ; x.median(1).values ; x.sort(1).values ;
        x.sort(0).values ; x.topk(5,1).values ; x.kthvalue(3,1).values ; t.quantile(x,0.3,1) ; x.any(1) ;
        x.count_nonzero() ; t.histc(x,50) ; t.unique((x*50).long()) ; x.trace() ; t.cummax(x,1).values ;
        t.nansum(x,1) ; t.var_mean(x,1)[0] ; t.aminmax(x,dim=1)[0] ; t.bincount((x.flatten()*50).long()) ;
        t.searchsorted(x[0].sort().values, y) ; t.bucketize(y, x[0].sort().values) ; t.histogram(x,50)[0] ;
        t.mode((x*9).long(),1).values ; t.diff(x) ; x.renorm(2,0,1.0)
    """,
    "shape": """
        t.cat([x,y]) ; t.cat([x,y],1) ; t.stack([x,y]) ; t.stack([x,y],-1) ; x.flip(1) ; x.roll(3,1) ;
        x.repeat(2,2) ; x.tril() ; t.diag_embed(x)[0] ; x.unfold(1,5,2)+0 ; x[idx] ; x[:,idx] ; x[idx,idx] ;
        x[x>0.5] ; x.gather(1,ii) ; x.scatter(1,ii,y) ; x.scatter_add(1,ii,y) ; x.index_add(0,idx,y) ;
        x.index_select(0,idx) ; t.take(x,ii) ; x.masked_fill(y>0.5,0.) ; x.masked_select(y>0.5) ;
        F.pad(x,(1,2)) ; F.pad(x[None,None],(1,1,1,1),mode='reflect') ; x.expand(3,*x.shape)*2 ;
        t.repeat_interleave(x,2,0) ; t.tril_indices(50,50) ; t.cdist(x[:100],y[:100]) ;
        t.cross(x[:,:3],y[:,:3],dim=1) ; F.one_hot(ii,N) ; x.index_fill(0,idx,1.) ; t.rot90(x) ;
        t.meshgrid(x[0],y[0],indexing='ij')[0]+0 ; F.pixel_shuffle(x4,2) ; t.combinations(x[0,:40])
    """,
    "product": """
        x@y.T ; x@y[0] ; x[0]@y[0] ; t.einsum('ij,kj->ik',x,y) ; t.addmm(y[:,:1]*0, x, y.T) ; b@b ;
        t.einsum('bij,bjk->bik',b,b) ; F.linear(x,y) ; F.bilinear(x[:32,:16],y[:32,:16],w3) ;
        t.outer(x[0],y[0]) ; t.tensordot(b,b,dims=([2],[1])) ; t.kron(x[:16,:16],y[:16,:16]) ;
        t.baddbmm(b,b,b) ; t.linalg.multi_dot([x,y.T,x])
    """,
    "nn": """
        F.mse_loss(x,y) ; F.l1_loss(x,y) ; F.smooth_l1_loss(x,y) ; F.cross_entropy(x,lab) ; F.nll_loss(x,lab) ;
        F.binary_cross_entropy(sx,sy) ; F.binary_cross_entropy_with_logits(x,sy) ; F.kl_div(x,sy) ; F.gelu(x) ;
        F.gelu(x,approximate='tanh') ; F.silu(x) ; F.elu(x) ; F.leaky_relu(x) ; F.softplus(x) ; F.hardswish(x) ;
        F.mish(x) ; F.selu(x) ; F.logsigmoid(x) ; F.glu(x) ; F.dropout(x,0.3) ; F.layer_norm(x,x.shape[1:]) ;
        F.rms_norm(x,x.shape[1:]) ; F.group_norm(x4,4) ; F.batch_norm(x4,None,None,training=True) ;
        F.instance_norm(x4) ; F.local_response_norm(x4,3) ; F.conv2d(x4,k3,padding=1) ;
        F.conv2d(x4,k3,stride=2) ; F.conv2d(x4,k1) ; F.conv2d(x4,kd,groups=16,padding=1) ;
        F.conv2d(x4,k5,padding=2) ; F.conv_transpose2d(x4,k3) ; F.conv1d(x3,k13,padding=1) ;
        F.conv3d(x5,k33,padding=1) ; F.max_pool2d(x4,2) ; F.avg_pool2d(x4,2) ; F.adaptive_avg_pool2d(x4,1) ;
        F.adaptive_max_pool2d(x4,3) ; F.max_pool1d(x3,3) ; F.interpolate(x4,scale_factor=2) ;
        F.interpolate(x4,scale_factor=2,mode='bilinear') ; F.interpolate(x4,scale_factor=2,mode='bicubic') ;
        F.grid_sample(x4,grid,align_corners=False) ; F.unfold(x4,3) ; F.fold(F.unfold(x4,3),x4.shape[2:],3) ;
        F.embedding(ii,x) ; F.embedding_bag(ii[:,:4],x) ; F.scaled_dot_product_attention(q,q,q) ;
        F.scaled_dot_product_attention(q,q,q,is_causal=True) ; F.cosine_similarity(x,y) ;
        F.pairwise_distance(x,y) ; F.normalize(x) ; F.triplet_margin_loss(x,y,x*2) ; F.softmin(x,1) ;
        F.prelu(x4,pw) ; F.lp_pool2d(x4,2,2) ; F.affine_grid(th,x4.shape,align_corners=False) ;
        F.ctc_loss(lp,tg,il,tl) ; F.huber_loss(x,y) ; F.gumbel_softmax(x)
    """,
    "linalg": """
        t.linalg.cholesky(spd) ; t.linalg.inv(spd) ; t.linalg.solve(spd,b) ; t.linalg.det(spd) ;
        t.linalg.slogdet(spd)[1] ; t.linalg.qr(b)[0] ; t.linalg.svdvals(b) ; t.linalg.svd(b)[1] ;
        t.linalg.eigvalsh(spd) ; t.linalg.eigh(spd)[0] ; t.linalg.lstsq(b,b)[0] ; t.linalg.pinv(b) ;
        t.linalg.matrix_exp(b) ; t.linalg.matrix_norm(b) ; t.linalg.matrix_norm(b,'nuc') ;
        t.linalg.vector_norm(b,dim=-1) ; t.linalg.solve_triangular(spd.tril(),b,upper=False) ;
        t.cholesky_solve(b,spd.tril()) ; t.linalg.matrix_power(b,5) ; t.linalg.eigvals(b) ;
        t.linalg.lu_factor(b)[0] ; t.logdet(spd) ; t.linalg.cond(b) ; t.linalg.vander(x[:, :8])
    """,
    "fft": """
        t.fft.fft(x).abs() ; t.fft.rfft(x).abs() ; t.fft.irfft(t.fft.rfft(x)) ; t.fft.fft2(x).abs() ;
        t.stft(x[0].repeat(8),64,window=t.ones(64),return_complex=True).abs() ; t.fft.fftshift(x) ;
        (x+1j*y).abs() ; ((x+1j*y)*(y+1j*x)).abs() ; t.polar(x,y).angle() ; (x+1j*y).exp().abs()
    """,
    "random": """
        t.rand(N,N) ; t.randn(N,N) ; t.randint(0,10,(N,N)) ; t.randperm(N*N) ; t.bernoulli(sx) ;
        t.multinomial(sx,5) ; t.normal(x,1.) ; D.Normal(x,1.+sx).log_prob(y) ; D.Normal(x,1.+sx).rsample() ;
        D.Gamma(1.+sx,1.+sy).rsample() ; D.Categorical(logits=x).log_prob(lab) ;
        D.Beta(1.+sx,1.+sy).log_prob(sy.clamp(.01,.99)) ;
        D.MultivariateNormal(x[0,:16],t.eye(16)).log_prob(y[:,:16]) ; D.Poisson(1.+sx).sample() ;
        D.Dirichlet(1.+sx).rsample() ; D.kl_divergence(D.Normal(x,1.+sx),D.Normal(y,1.+sy)) ;
        D.StudentT(3.+sx).log_prob(x) ; t.distributions.Bernoulli(logits=x).log_prob((sy>.5).float())
    """,
    "create": """
        t.zeros(N,N) ; t.ones(N,N) ; t.full((N,N),2.) ; t.arange(N*N) ; t.linspace(0,1,N*N) ; t.eye(N) ;
        t.zeros_like(x) ; t.empty(N,N) ; t.tensor(lst) ; x.tolist() ; x.clone() ;
        x.numpy() if not x.requires_grad else x.detach().numpy() ; x.item() if x.numel()==1 else x[0,0].item() ;
        x.view(-1) ; x.reshape(-1) ; x.t() ; x[1] ; x[1:,::2] ; x.unsqueeze(0) ; x.permute(1,0) ; x.detach() ;
        x.chunk(2) ; x.split(3) ; x.unbind() ; bool((x==x).all()) ; t.equal(x,y) ; t.allclose(x,y)
    """,
}
#: Rows of a matrix; images of (batch, height); rows of the matrices of a batch.
SIZES = {"small": (8, (1, 8), 4), "middle": (64, (4, 28), 16), "large": (512, (8, 64), 128)}


def calls(words):
    """(size, family, text) of every call that is chosen."""
    for size in SIZES:
        for family, texts in FAMILIES.items():
            for text in map(str.strip, texts.split(";")):
                if not words or any(word in f"{size} {family} {text}" for word in words):
                    yield size, family, text


def scene(t, size):
    """The names that a call may use, as tensors of library `t`."""
    rows, (batch, height), inner = SIZES[size]
    t.manual_seed(0)
    numbers = random.Random(0)

    def r(*shape):
        return t.rand(*shape) * 0.8 + 0.1

    d = {
        "t": t,
        "F": harness.submodule(t, "nn.functional"),
        "D": harness.submodule(t, "distributions"),
        "N": rows,
        **{name: r(rows, rows) for name in ("x", "y", "sx", "sy")},
        **{name: t.randint(0, rows, (rows,)) for name in ("idx", "lab")},
        "ii": t.randint(0, rows, (rows, rows)),
        "b": r(8, inner, inner),
        "w3": r(8, min(16, rows), min(16, rows)),
        "x3": r(batch, 16, height * 4),
        "x4": r(batch, 16, height, height),
        "x5": r(1, 4, *(min(height, 16),) * 3),
        "k1": r(16, 16, 1, 1),
        "k3": r(16, 16, 3, 3),
        "k5": r(16, 16, 5, 5),
        "kd": r(16, 1, 3, 3),
        "k13": r(16, 16, 3),
        "k33": r(4, 4, 3, 3, 3),
        "q": r(batch, 4, height, 16),
        "grid": r(batch, height, height, 2),
        "pw": r(16),
        "th": r(batch, 2, 3),
        "lst": [[numbers.random() for _ in range(rows)] for _ in range(rows)],
    }
    d["spd"] = d["b"] @ d["b"].transpose(1, 2) + 2 * t.eye(inner)
    steps = max(rows // 4, 8)
    d["lp"] = t.log_softmax(r(steps, 4, 20), 2)
    d["tg"] = t.randint(1, 20, (4, steps // 2))
    d["il"], d["tl"] = t.full((4,), steps), t.full((4,), steps // 2)
    return d


def forward(t, size, text):
    """The call as a function without arguments."""
    d, code = scene(t, size), compile(text, text, "eval")
    return lambda: eval(code, d)


def with_gradients(t, size, text):
    """The call and its backward pass as one function; None where nothing in it has a gradient."""
    d, code = scene(t, size), compile(text, text, "eval")
    leaves = [d[n] for n in code.co_names if getattr(d.get(n), "dtype", None) is t.float32 and d[n].is_leaf]
    for leaf in leaves:
        leaf.requires_grad_()
    y = eval(code, d)
    if not getattr(y, "requires_grad", False):
        return None
    seed = t.ones_like(y)

    def step():
        eval(code, d).backward(seed)
        for leaf in leaves:
            leaf.grad = None

    return step


def minima(functions, seconds):
    """The shortest time of each function in `seconds` each; they take turns."""
    best, count = [math.inf] * len(functions), [1] * len(functions)
    end, runs = time.perf_counter() + seconds * len(functions), 0
    for function in functions:
        function()
    while time.perf_counter() < end or runs < 3:
        for k, function in enumerate(functions):
            took = harness.timed(function, count[k])
            best[k] = min(best[k], took)
            if took * count[k] < 5e-4:
                count[k] *= 2
        runs += 1
    return best


def measure(call, libraries, seconds):
    """The rows of a call: (name, Adjoint's seconds or why there are none, torch's or None)."""
    size, family, text = call
    for kind, make in (("", forward), (" grad", with_gradients)):
        if kind and family == "create":
            return
        made, why = [], None
        for t in libraries:
            function, problem = harness.attempt(lambda t=t: (f := make(t, size, text)) and (f(), f)[1])
            made.append(function)
            why = why or (problem and f"{t.__name__}: {problem}")
        if why or None in made:
            if why or made[0] is not None:
                yield f"{size} {family} {text}{kind}", why or "no gradient of torch's", None
            continue
        yield f"{size} {family} {text}{kind}", *(minima(made, seconds) + [None])[:2]


def table(rows, below):
    """The lines to print."""
    groups, slow, broken = {}, [], []
    for name, ours, theirs in rows:
        if isinstance(ours, str):
            broken.append(f"does not run: {name}: {ours}")
        elif theirs is not None:
            size, family = name.split()[:2]
            groups.setdefault((family, size, name.endswith(" grad")), []).append(theirs / ours)
            if theirs / ours < below:
                slow.append((theirs / ours, name, theirs, ours))
    mean = lambda ratios: math.exp(sum(map(math.log, ratios)) / len(ratios))
    if groups:
        yield f"{'family':10}" + "".join(f"{size:>10}{'grad':>7}" for size in SIZES) + f"{'worst':>8}"
    for family in FAMILIES:
        found = {key: v for key, v in groups.items() if key[0] == family}
        cells = (found.get((family, size, grad)) for size in SIZES for grad in (False, True))
        text = [f"{mean(c):.2f}" if c else "" for c in cells]
        if found:
            worst = min(min(v) for v in found.values())
            yield (
                f"{family:10}"
                + "".join(f"{a:>10}{b:>7}" for a, b in zip(text[::2], text[1::2]))
                + f"{worst:8.2f}"
            )
    if groups:
        yield f"{len(slow)} of {sum(map(len, groups.values()))} below {below}:"
    for ratio, name, theirs, ours in sorted(slow):
        yield f"{ratio:6.2f}  {name:70} torch {theirs * 1e6:10.1f} µs, Adjoint {ours * 1e6:10.1f} µs"
    yield from broken
    if not groups:
        yield from (f"{ours * 1e6:10.1f} µs  {name}" for name, ours, _ in rows if not isinstance(ours, str))


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.surface", description="The surface beside torch."
    )
    parser.add_argument(
        "--only", action="append", metavar="WORDS", help='calls whose "size family call" contains WORDS'
    )
    parser.add_argument("--below", type=float, default=0.9, help="list the calls below this ratio")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.04, help="for each library and call")
    parser.add_argument("--json", metavar="FILE", help="also write all rows")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--theirs", default="torch", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    chosen = list(calls(options.only))
    if options.list:
        print(*(" ".join(call) for call in chosen), sep="\n")
        return 0
    libraries = [t for t in map(harness.load, ("adjoint", options.theirs)) if t is not None]
    for t in libraries:
        harness.set_threads(t, options.threads)
    rows = []
    for call in chosen:
        if sys.stderr.isatty():
            print("\r\033[K" + " ".join(call), end="", file=sys.stderr, flush=True)
        rows.extend(measure(call, libraries, options.seconds))
    print(*table(rows, options.below), sep="\n")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=0)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
