"""Random calls of linear algebra, Fourier transforms, distributions and special functions of two arguments. Start at `FAMILIES`."""


def decomposition(d):
    lead, n, m = d.shape(0, 2, 2), d.int(0, 5) if d.chance(0.1) else d.int(1, 5), d.int(1, 5)
    dtype = d.pick("float64", "float64", "float32", "complex128")
    a = d.t((*lead, n, n), dtype)
    h = f"({a} + {a}.mH)"
    definite = f"({a} @ {a}.mH + 2 * ad.eye({n}, dtype={a}.dtype))"
    regular = f"({a} + 3 * ad.eye({n}, dtype={a}.dtype))"
    w = d.t((*lead, n, m), dtype, layout=d.pick("plain", "transposed", "strided"))  # of full rank
    b = d.t((*lead, n, d.int(1, 3)), dtype)
    upper = d.chance(0.5)
    return d.pick(
        f"ad.linalg.inv({regular})",
        f"ad.linalg.det({a})",
        f"ad.linalg.slogdet({regular})",
        f"ad.logdet({definite})" if not dtype.startswith("c") else f"ad.linalg.det({a})",
        f"ad.linalg.solve({regular}, {b})",
        f"ad.linalg.cholesky({definite}{d.options(upper=(True, False))})",
        f"ad.linalg.eigvalsh({h}{d.options(UPLO=('U', 'L'))})",
        f"ad.linalg.svdvals({w})",
        f"ad.linalg.qr({w}, mode={d.pick('reduced', 'r')!r})[1].abs()",
        f"ad.linalg.pinv({w})",
        f"ad.linalg.matrix_power({regular}, {d.int(-2, 4)})",
        f"ad.linalg.matrix_exp({a})",
        f"ad.linalg.solve_triangular({regular}{'.triu()' if upper else '.tril()'}, {b}, upper={upper}{d.options(unitriangular=(True, False))})",
        f"ad.cholesky_solve({b}, ad.linalg.cholesky({definite}))",
        f"ad.cholesky_inverse(ad.linalg.cholesky({definite}))",
        f"ad.linalg.matrix_norm({w}, {d.pick(repr('fro'), repr('nuc'), 1, -1, 2, -2)}{d.options(keepdim=(True,))})",
        f"ad.linalg.cond({regular}{d.options(p=(1, 2, 'fro'))})",
        f"ad.linalg.matrix_rank({w})",
        f"ad.linalg.lu_factor({regular})[0]",
        f"ad.linalg.lstsq({w}, {b}).solution" if n >= m else f"ad.linalg.pinv({w})",
        f"ad.linalg.cross({d.t((*lead, 3), dtype)}, {d.t((*lead, 3), dtype)})",
        f"ad.trace({a})" if not lead else f"{a}.diagonal(0, -2, -1).sum(-1)",
        f"ad.cdist({d.t((n, m), 'float64')}, {d.t((d.int(1, 4), m), 'float64')}, p={d.pick(0.5, 1, 2, 3, float('inf'))})",
        f"F.pdist({d.t((n, m), 'float64')}, p={d.pick(1, 2, 3)})",
        f"ad.cov({d.t((n, m), 'float64')}{d.options(correction=(0, 1))})",
        f"ad.corrcoef({d.t((n, m + 1), 'float64')})",
        f"ad.linalg.tensorinv({regular}.reshape({(*lead, n, n)}), ind={1 + len(lead)})"
        if not lead
        else f"ad.linalg.inv({regular})",
    )


def transform(d):
    shape = d.shape(1, 3, 8)
    n = len(shape)
    real = d.t(shape, d.pick("float32", "float64"))
    x = d.t(shape, d.pick("complex64", "complex128", "float64"))
    one = d.options(n=(1, 3, 8), norm=("ortho", "forward", "backward")) + f", dim={d.dim(n)}"
    many = d.options(norm=("ortho", "forward"))
    two = f", dim={tuple(d.r.sample(range(n), min(n, 2)))}"
    return d.pick(
        f"ad.fft.{d.pick('fft', 'ifft', 'hfft', 'irfft')}({x}{one})",
        f"ad.fft.{d.pick('rfft', 'ihfft', 'fft')}({real}{one})",
        f"ad.fft.{d.pick('fft2', 'ifft2', 'fftn', 'ifftn', 'irfftn')}({x}{two}{many})",
        f"ad.fft.rfftn({real}{two}{many})",
        f"ad.fft.{d.pick('fftshift', 'ifftshift')}({x}, dim={d.dim(n)})",
        f"ad.fft.{d.pick('fftfreq', 'rfftfreq')}({d.int(1, 9)}{d.options(d=(0.5, 2.0))})",
        f"ad.stft({d.t((d.int(1, 2), 16), 'float64')}, n_fft=8, hop_length={d.int(1, 4)}, window=ad.ones(8, dtype=ad.float64), return_complex=True{d.options(center=(True, False), normalized=(True, False), onesided=(True, False))})",
    )


def special(d):
    shape, dtype = d.shape(0, 3), d.pick("float32", "float64", "float64")
    a, b, x = (d.t(d.broadcast(shape), dtype, "positive") for _ in range(3))
    return d.pick(
        f"ad.special.gammainc({a}.detach(), {x})",
        f"ad.special.gammaincc({a}.detach(), {x})",
        f"ad.special.polygamma({d.int(0, 3)}, {x})",
        f"ad.special.multigammaln({x} + 2, {d.int(1, 3)})",
        f"ad.special.log_softmax({x}, {d.dim(len(d.tensors[x].values.shape))})",
        f"ad.special.zeta({a}.detach() + 1, {b}.detach())",
        f"ad.special.chebyshev_polynomial_t({x}.detach(), {d.int(0, 6)})",
        f"ad.special.hermite_polynomial_h({x}.detach(), {d.int(0, 6)})",
        f"ad.special.xlogy({a}, {b})",
        f"ad.special.logsumexp({x}, {d.dim(len(d.tensors[x].values.shape))})",
    )


#: name → (parameters by kind, kind of values).
DISTRIBUTIONS = {
    "Normal": ("normal positive", "normal"),
    "Laplace": ("normal positive", "normal"),
    "Cauchy": ("normal positive", "normal"),
    "Gumbel": ("normal positive", "normal"),
    "StudentT": ("positive normal positive", "normal"),
    "LogNormal": ("normal positive", "positive"),
    "HalfNormal": ("positive", "positive"),
    "HalfCauchy": ("positive", "positive"),
    "Exponential": ("positive", "positive"),
    "Gamma": ("positive positive", "positive"),
    "Chi2": ("positive", "positive"),
    "InverseGamma": ("positive positive", "positive"),
    "Weibull": ("positive positive", "positive"),
    "Beta": ("positive positive", "unit"),
    "Kumaraswamy": ("positive positive", "unit"),
    "FisherSnedecor": ("positive positive", "positive"),
    "VonMises": ("normal positive", "normal"),
    "Bernoulli": ("unit", "bit"),
    "Geometric": ("unit", "count"),
    "Poisson": ("positive", "count"),
    "ContinuousBernoulli": ("unit", "unit"),
    "Uniform": ("normal uniform", "normal"),
}


def distribution(d):
    name = d.pick(sorted(DISTRIBUTIONS))
    kinds, values = DISTRIBUTIONS[name]
    shape, dtype = d.shape(0, 2), d.pick("float32", "float64")
    parameters = [d.t(shape, dtype, "positive" if k == "uniform" else k) for k in kinds.split()]
    if name == "Uniform":
        parameters[1] = f"{parameters[0]} + {parameters[1]}"
    d_text = f"ad.distributions.{name}({', '.join(parameters)}, validate_args=False)"
    if values in ("bit", "count"):
        v = d.t(values=d.np.integers(0, 2 if values == "bit" else 5, shape), dtype=dtype, grad=False)
    else:
        v = d.t(shape, dtype, values)
    what = ["log_prob", "log_prob", "mean", "variance", "entropy", "cdf", "icdf"]
    ask = d.pick(what)
    if ask in ("mean", "variance"):
        return f"{d_text}.{ask}"
    if ask == "entropy":
        return f"{d_text}.entropy()"
    return f"{d_text}.{ask}({v if ask != 'icdf' else d.t(shape, dtype, 'unit')})"


def divergence(d):
    name = d.pick(
        "Normal",
        "Laplace",
        "Gamma",
        "Beta",
        "Exponential",
        "Bernoulli",
        "Poisson",
        "Gumbel",
        "LogNormal",
        "Geometric",
        "HalfNormal",
    )
    kinds = DISTRIBUTIONS[name][0].split()
    shape, dtype = d.shape(0, 2), d.pick("float32", "float64")
    p, q = ([d.t(shape, dtype, k) for k in kinds] for _ in range(2))
    return f"ad.distributions.kl_divergence(ad.distributions.{name}({', '.join(p)}), ad.distributions.{name}({', '.join(q)}))"


FAMILIES = {f.__name__: f for f in (decomposition, transform, special, distribution, divergence)}
