"""Random calls of element-wise functions, reductions, searches, shapes and indices. Start reading at `FAMILIES`."""

UNARY = {
    "normal": "abs neg sin cos tan atan sinh cosh tanh asinh exp expm1 exp2 sigmoid square erf erfc positive sgn sign "
    "floor ceil round trunc frac sinc deg2rad rad2deg special.i0 special.i0e special.i1 special.i1e special.ndtr special.expit "
    "special.erfcx special.log_ndtr special.bessel_j0 special.bessel_j1 conj_physical relu isnan isinf isfinite signbit "
    "logical_not isposinf isneginf nan_to_num angle real",
    "positive": "sqrt rsqrt log log2 log10 log1p reciprocal lgamma digamma special.entr special.modified_bessel_k0 special.bessel_y0",
    "unit": "asin acos atanh logit erfinv special.ndtri",
}
UNARY = [(name, kind) for kind, names in UNARY.items() for name in names.split()]
BINARY = (
    "add sub mul div true_divide atan2 maximum minimum fmax fmin hypot copysign eq ne lt le gt ge logical_and logical_or "
    "logical_xor heaviside logaddexp logaddexp2 fmod remainder floor_divide float_power special.xlog1py xlogy pow dist "
    "special.zeta nextafter isclose"
).split()
BITS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm".split()


def unary(d):
    name, kind = d.pick(UNARY)
    dtype = d.any()
    x = d.t(dtype=dtype, kind="any" if d.chance(0.3) else kind)
    if name == "round" and d.chance(0.5):
        return f"ad.round({x}, decimals={d.int(-1, 3)})"
    if name == "nan_to_num" and d.chance(0.5):
        return f"ad.nan_to_num({x}{d.options(nan=(0.5, 2), posinf=(9.0,), neginf=(-9.0,))})"
    if name == "logit" and d.chance(0.5):
        return f"ad.logit({x}, eps={d.pick(0.1, 1e-3)})"
    if "." not in name and name not in ("real", "angle", "positive") and d.chance(0.15):
        return (
            f"{x}.clone().{name}_()"
            if name not in ("isnan", "isinf", "isfinite", "signbit", "isposinf", "isneginf")
            else f"{x}.{name}()"
        )
    return f"ad.{name}({x})"


def binary(d):
    name = d.pick(BINARY)
    shape, dtype = d.shape(), d.any()
    kind = (
        "positive"
        if name in ("pow", "float_power", "xlogy", "special.xlog1py", "special.zeta")
        else d.pick("normal", "any")
    )
    x = d.t(shape, dtype, kind)
    other = d.pick(dtype, dtype, d.any())
    y = d.t(d.broadcast(shape), other, kind) if d.chance(0.75) else repr(d.number(other))
    if name in ("add", "sub") and d.chance(0.3):
        return f"ad.{name}({x}, {y}, alpha={d.pick(2, 0.5, -1)})"
    if name == "div" and d.chance(0.4):
        return f"ad.div({x}, {y}, rounding_mode={d.pick('floor', 'trunc', None)!r})"
    if name == "dist":
        return f"ad.dist({x}, {y}, {d.pick(0, 1, 2, 3, 0.5, 'inf')})" if y[0] == "x" else f"ad.add({x}, {y})"
    operator = {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "div": "/",
        "pow": "**",
        "remainder": "%",
        "eq": "==",
        "lt": "<",
        "floor_divide": "//",
    }.get(name)
    if operator and d.chance(0.4):
        return f"{x} {operator} {y}" if d.chance(0.7) or y[0] != "x" else f"{y} {operator} {x}"
    if operator and y[0] != "x" and d.chance(0.5):
        return f"{y} {operator} {x}"
    if (
        d.chance(0.1)
        and name in ("add", "sub", "mul", "div", "maximum", "fmod", "remainder", "atan2")
        and name != "maximum"
    ):
        return f"{x}.clone().{name}_({y})"
    return f"ad.{name}({x}, {y})"


def bits(d):
    name, shape = d.pick(BITS), d.shape()
    dtype = d.pick("int64", "int32", "int16", "uint8", "int8", "bool")
    kind = "unit" if "shift" in name else "normal"
    x = d.t(shape, dtype, kind)
    y = (
        d.t(d.broadcast(shape), d.pick(dtype, "int64", "int16"), kind)
        if d.chance(0.7)
        else repr(d.pick(0, 1, 3, 5))
    )
    return f"ad.{name}({x}, {y})"


def ternary(d):
    shape, dtype = d.shape(), d.any()
    a, b, c = (
        d.t(d.broadcast(shape), d.pick(dtype, dtype, d.any()), d.pick("normal", "normal", "any"))
        for _ in range(3)
    )
    return d.pick(
        f"ad.where({d.mask(d.broadcast(shape))}, {a}, {d.pick(b, repr(d.number()))})",
        f"ad.addcmul({a}, {b}, {c}{d.options(value=(2, 0.5, -1.5))})",
        f"ad.addcdiv({a}, {b}, {c}{d.options(value=(2, 0.5))})",
        f"ad.lerp({a}, {b}, {d.pick(c, '0.25', '1.5')})",
        f"ad.clamp({a}, {d.pick(b, 'None')}, {c})",
        f"ad.clamp({a}{d.options(min=(-1, 0.5), max=(1, 0.75))})",
        f"{a}.clone().clamp_(max=0.5)",
        f"ad.isclose({a}, {b}, equal_nan=True)",
        f"ad.masked_fill({a}, {d.mask(d.broadcast(shape))}, {d.number()})",
    )


def dims(d, n, several=True):
    if n == 0 or not several or d.chance(0.5):
        return d.dim(n)
    return tuple(d.r.sample(range(n), d.int(1, n)))


def reduction(d):
    name = d.pick(
        "sum mean prod std var amax amin max min argmax argmin any all norm logsumexp nansum nanmean median nanmedian "
        "cumsum cumprod cummax cummin logcumsumexp count_nonzero aminmax std_mean var_mean quantile nanquantile diff trapezoid "
        "cumulative_trapezoid softmax log_softmax linalg.vector_norm renorm".split()
    )
    shape, dtype = d.shape(), d.any()
    n = len(shape)
    x = d.t(shape, dtype, d.pick("normal", "normal", "any") if name not in ("prod", "cumprod") else "normal")
    keep = d.options(keepdim=(True, False))
    if name in ("amax", "amin", "any", "all", "sum", "mean", "nansum", "nanmean", "logsumexp"):
        if name != "logsumexp" and d.chance(0.25):
            return f"ad.{name}({x})"
        more = f", dtype=ad.{d.any()}" if name in ("sum", "mean", "nansum") and d.chance(0.2) else ""
        return f"ad.{name}({x}, dim={dims(d, n)}{keep}{more})"
    if name in (
        "prod",
        "median",
        "nanmedian",
        "max",
        "min",
        "argmax",
        "argmin",
        "std_mean",
        "var_mean",
    ) and d.chance(0.25):
        return f"ad.{name}({x})"
    if name in ("std", "var", "std_mean", "var_mean"):
        return f"ad.{name}({x}, dim={dims(d, n)}{d.options(correction=(0, 1, 2))}{keep})"
    if name == "norm":
        return f"ad.norm({x}, p={d.pick(0, 1, 2, 3, 0.5, float('inf'), -1)}, dim={dims(d, n)}{keep})"
    if name == "linalg.vector_norm":
        return (
            f"ad.linalg.vector_norm({x}, {d.pick(0, 1, 2, 3, 0.5, float('inf'), -2)}, dim={dims(d, n)}{keep})"
        )
    if name in ("quantile", "nanquantile"):
        return f"ad.{name}({x}, {d.pick(0.0, 0.3, 0.5, 1.0)}, dim={d.dim(n)}{keep}{d.options(interpolation=('linear', 'lower', 'higher', 'midpoint', 'nearest'))})"
    if name == "diff":
        return f"ad.diff({x}, n={d.pick(1, 1, 2)}, dim={d.dim(n)})"
    if name in ("trapezoid", "cumulative_trapezoid"):
        return f"ad.{name}({x}, dx={d.pick(1, 0.5)}, dim={d.dim(n)})"
    if name in (
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "logcumsumexp",
        "softmax",
        "log_softmax",
        "count_nonzero",
    ):
        return f"ad.{name}({x}, {d.dim(n)})"
    if name == "renorm":
        return f"ad.renorm({x}, {d.pick(1, 2, 3)}, {d.dim(n)}, {d.pick(0.5, 2.0)})"
    if name == "aminmax":
        return f"ad.aminmax({x}, dim={d.dim(n)}{keep})" if d.chance(0.7) else f"ad.aminmax({x})"
    return f"ad.{name}({x}, dim={d.dim(n)}{keep})"


def search(d):
    shape = d.shape(1, 3, 9)
    n, dtype = len(shape), d.pick(d.floating(), d.floating(), "int64", "int32", "uint8")
    x = d.t(shape, dtype)
    dim = d.dim(n)
    size = shape[dim] if -n <= dim < n else 1
    v = d.t(d.shape(0, 2), dtype)
    return d.pick(
        f"ad.sort({x}, stable=True, dim={dim}{d.options(descending=(True, False))})",
        f"ad.argsort({x}, stable=True, dim={dim}{d.options(descending=(True, False))})",
        f"ad.topk({x}, {d.int(0, size + (d.chance(0.05)))}, {dim}{d.options(largest=(True, False))})[0]",
        f"ad.kthvalue({x}, {d.int(1, max(size, 1))}, {dim}{d.options(keepdim=(True, False))})[0]",
        f"ad.msort({x})",
        f"ad.unique({x}, return_inverse=True, return_counts=True)",
        f"ad.unique({x}, dim={dim})",
        f"ad.unique_consecutive({x}, return_counts=True)",
        f"ad.searchsorted(ad.sort({x})[0], ad.sort({x})[0]{d.options(right=(True, False))})",
        f"ad.bucketize({v}, ad.sort({x}.flatten())[0]{d.options(right=(True, False), out_int32=(True,))})",
        f"ad.histc({x}, {d.int(1, 9)}{d.pick('', ', -2, 2')})",
        f"ad.histogram({x}, {d.int(1, 9)}, range=(-2.0, 2.0))",
        f"ad.bincount({d.index((d.int(0, 12),), 7)}{d.options(minlength=(0, 5, 12))})",
        f"ad.mode({x}, {dim})[0]",
        f"ad.nonzero({x})",
        f"ad.nonzero({x}, as_tuple=True)",
        f"ad.isin({x}, {v})",
        f"ad.argwhere({x})",
        f"ad.count_nonzero({x})",
    )


def reshaping(d):
    shape = d.shape(0, 4)
    n, x = len(shape), d.t(shape, d.any())
    total = 1
    for s in shape:
        total *= s
    a, b = d.dim(n), d.dim(n)
    perm = list(range(n))
    d.r.shuffle(perm)
    size = shape[a] if n and -n <= a < n else 1
    choices = [
        f"{x}.reshape({d.pick((-1,), (total, 1), (1, -1), shape[::-1])})",
        f"{x}.permute({tuple(perm)})",
        f"ad.transpose({x}, {a}, {b})",
        f"ad.movedim({x}, {a}, {b})",
        f"ad.flatten({x}, {a}, {b})",
        f"ad.squeeze({x}{d.pick('', f', {a}', f', {(a,)}')})",
        f"ad.unsqueeze({x}, {d.int(-n - 1, n)})",
        f"{x}.expand({(d.int(1, 3), *shape)})",
        f"{x}.repeat({tuple(d.int(0, 3) for _ in range(n + d.int(0, 1)))})",
        f"ad.tile({x}, {tuple(d.int(1, 3) for _ in range(d.int(0, 3)))})",
        f"ad.repeat_interleave({x}, {d.int(0, 3)}, dim={a})",
        f"ad.roll({x}, {d.int(-3, 3)}, {a})",
        f"ad.roll({x}, {d.int(-3, 3)})",
        f"ad.flip({x}, {(a,)})",
        f"ad.rot90({x}, {d.int(-3, 5)})",
        f"ad.chunk({x}, {d.int(1, 4)}, {a})",
        f"ad.split({x}, {d.int(1, 4)}, {a})",
        f"ad.tensor_split({x}, {d.int(1, 4)}, {a})",
        f"ad.unbind({x}, {a})",
        f"ad.diagonal({x}, {d.int(-2, 2)}, {a}, {b})",
        f"ad.diag({x}, {d.int(-2, 2)})",
        f"ad.diag_embed({x}, {d.int(-2, 2)})",
        f"ad.diagflat({x}, {d.int(-2, 2)})",
        f"ad.tril({x}, {d.int(-3, 3)})",
        f"ad.triu({x}, {d.int(-3, 3)})",
        f"ad.narrow({x}, {a}, {d.int(0, size)}, {d.int(0, size)})",
        f"ad.select({x}, {a}, {d.int(-size, size)})",
        f"{x}.unfold({a}, {d.int(0, size + 1)}, {d.int(1, 3)})",
        f"ad.atleast_{d.int(1, 3)}d({x})",
        f"{x}.to(ad.{d.any()})",
        f"ad.Tensor.view({x}.clone(memory_format=ad.contiguous_format), ad.{d.any()})",
        f"{x}.contiguous().view(-1)",
        f"ad.block_diag({x}, {x})",
        f"{x}.T" if n == 2 else f"{x}.swapaxes({a}, {b})",
        f"ad.unflatten({x}, {a}, {d.pick((-1, 1), (size, 1), (2, -1))})",
        f"ad.cartesian_prod({x}.flatten()[:3], {x}.flatten()[:2])",
        f"ad.combinations({x}.flatten()[:5], {d.int(0, 3)}{d.options(with_replacement=(True, False))})",
        f"ad.meshgrid({x}.flatten()[:3], {x}.flatten()[:2], indexing={d.pick('ij', 'xy')!r})",
        f"ad.vander({x}.flatten()[:4]{d.options(N=(0, 1, 3), increasing=(True,))})",
    ]
    return d.pick(choices)


def joining(d):
    shape = d.shape(0, 3)
    n, dim = len(shape), None
    dim = d.dim(n)
    parts = []
    for _ in range(d.int(1, 4)):
        s = list(shape)
        if n and -n <= dim < n and d.chance(0.6):
            s[dim] = d.int(0, 4)
        if d.chance(0.02) and s:
            s[0] += 1
        parts.append(d.t(s, d.any()))
    listed = f"[{', '.join(parts)}]"
    return d.pick(
        f"ad.cat({listed}, {dim})",
        f"ad.cat({listed}, {dim})",
        f"ad.stack({listed}, {d.int(-n - 1, n)})",
        f"ad.hstack({listed})",
        f"ad.vstack({listed})",
        f"ad.dstack({listed})",
        f"ad.column_stack({listed})",
        f"ad.broadcast_tensors({', '.join(parts)})",
    )


def picking(d):
    shape = d.shape(1, 3)
    n = len(shape)
    dim = d.int(-n, n - 1)
    size = shape[dim]
    dtype = d.any()
    x = d.t(shape, dtype)
    part = list(d.int(0, s) if d.chance(0.3) else s for s in shape)
    part[dim] = d.int(0, 5)
    many = d.index(part, size)
    src = d.t(part, dtype)
    one = d.index((d.int(0, 5),), size)
    rows = list(shape)
    rows[dim] = d.tensors[one].values.shape[0]
    values = d.t(rows, dtype)
    total = 1
    for s in shape:
        total *= s
    flat = d.index(d.shape(0, 2), total, negative=True)
    reduce = d.pick("sum", "prod", "mean", "amax", "amin")
    include = d.options(include_self=(True, False))
    return d.pick(
        f"ad.gather({x}, {dim}, {many})",
        f"ad.scatter({x}, {dim}, {many}, {d.number(dtype)})",
        f"ad.scatter_add({x}, {dim}, {many}, {src})",
        f"ad.scatter_reduce({x}, {dim}, {many}, {src}, {reduce!r}{include})",
        f"ad.index_select({x}, {dim}, {one})",
        f"ad.index_add({x}, {dim}, {one}, {values}{d.options(alpha=(2, -1))})",
        f"ad.index_fill({x}, {dim}, {one}, {d.number(dtype)})",
        f"ad.index_reduce({x}, {dim}, {one}, {values}, {d.pick('prod', 'mean', 'amax', 'amin')!r}{include})",
        f"ad.take({x}, {flat})",
        f"ad.take_along_dim({x}, {many}, {dim})",
        f"ad.masked_select({x}, {d.mask(d.broadcast(shape))})",
        f"ad.masked_scatter({x}, {d.mask(shape)}, {d.t((total,), dtype)})",
        f"{x}[{index(d, shape)}]",
        f"{x}[{index(d, shape)}]",
        f"{x}[{index(d, shape)}]",
        f"put({x}.clone(), at[{index(d, shape)}], {d.number(dtype)})",
        f"{x}.clone().index_put_(({d.index((3,), shape[0], negative=True)},), {d.t((), dtype)}, accumulate=True)",
        f"{x}.clone().index_put_(({d.index((1,), shape[0], negative=True)},), {d.t((), dtype)})",
        f"ad.slice_scatter({x}, {x}[:1], 0, 0, 1)",
        f"ad.select_scatter({x}, {x}.select(0, 0), 0, 0)",
    )


def index(d, shape):
    items = []
    for s in shape[: d.int(0, len(shape))]:
        items.append(
            d.pick(
                str(d.int(-s, s if d.chance(0.05) else max(s - 1, 0))),
                ":",
                f"{d.int(-2, 2)}:",
                f":{d.int(-2, 6)}",
                f"{d.int(0, 2)}::{d.int(1, 3)}",
                f"None, {d.pick(':', '0')}",
                d.index(d.shape(0, 2, 3), s, negative=True),
                d.index((2,), s),
                d.mask((s,)),
                f"[{', '.join(str(d.int(-s, max(s - 1, 0))) for _ in range(d.int(1, 3)))}]",
            )
        )
    if d.chance(0.3):
        items.insert(d.int(0, len(items)), "...")
    return ", ".join(items) + ("," if items else "...")


def product(d):
    b, m, k, n = (d.int(0, 5) if d.chance(0.2) else d.int(1, 6) for _ in range(4))
    dtype = d.pick(d.differentiable(), d.differentiable(), "int64")
    k2 = k + d.chance(0.02)
    t = lambda *s: d.t(s, dtype)  # noqa: E731
    beta = (
        d.options(beta=(0, 1, 2, 0.5), alpha=(1, 2, -0.5))
        if dtype != "int64"
        else d.options(beta=(0, 2), alpha=(2,))
    )
    choice = d.int(0, 17)
    return [
        lambda: f"{t(m, k)} @ {t(k2, n)}",
        lambda: f"ad.bmm({t(b, m, k)}, {t(b, k2, n)})",
        lambda: (
            f"ad.matmul({d.pick(t(k), t(m, k), t(b, m, k), t(2, 1, m, k))}, {d.pick(t(k), t(k2, n), t(b, k, n))})"
        ),
        lambda: f"ad.mv({t(m, k)}, {t(k2)})",
        lambda: f"ad.dot({t(k)}, {t(k2)})",
        lambda: f"ad.vdot({t(k)}, {t(k)})",
        lambda: f"ad.inner({t(m, k)}, {t(n, k)})",
        lambda: f"ad.outer({t(m)}, {t(n)})",
        lambda: f"ad.addmm({d.pick(t(m, n), t(n), t(1, n))}, {t(m, k)}, {t(k2, n)}{beta})",
        lambda: f"ad.addmv({t(m)}, {t(m, k)}, {t(k)}{beta})",
        lambda: f"ad.baddbmm({d.pick(t(b, m, n), t(n))}, {t(b, m, k)}, {t(b, k, n)}{beta})",
        lambda: f"ad.addbmm({t(m, n)}, {t(b, m, k)}, {t(b, k, n)}{beta})",
        lambda: f"ad.addr({t(m, n)}, {t(m)}, {t(n)}{beta})",
        lambda: (
            f"ad.einsum({d.pick('bij,bjk->bik', 'bij,bkj->ki', 'bij,bij->b', 'bij,bij', '...ij,...jk->...k')!r}, {t(b, m, m)}, {t(b, m, m)})"
        ),
        lambda: f"ad.tensordot({t(m, k, n)}, {t(k, n, b)}, dims={d.pick(2, ([1, 2], [0, 1]), ([1], [0]))})",
        lambda: f"ad.kron({t(m, k)}, {t(n, b)})",
        lambda: f"ad.linalg.multi_dot([{t(m, k)}, {t(k, n)}, {t(n, b)}])",
        lambda: f"ad.linalg.vecdot({t(m, k)}, {t(m, k)})",
    ][choice]()


def creation(d):
    dtype = d.any()
    given = f", dtype=ad.{dtype}" if d.chance(0.6) else ""
    x = d.t(dtype=d.any(), grad=False)
    a, b = d.pick(0, 1, -2, 0.5, -1.5), d.pick(5, 3.5, -4, 0)
    return d.pick(
        f"ad.arange({a}, {b}, {d.pick(1, 2, 0.5, -1)}{given})",
        f"ad.linspace({a}, {b}, {d.int(0, 9)}{given})",
        f"ad.logspace({a}, {d.pick(1, 2)}, {d.int(0, 9)}{given})",
        f"ad.full({d.shape()}, {d.number(dtype)}{given})",
        f"ad.full_like({x}, {d.number(dtype)}{given})",
        f"ad.zeros_like({x}{given})",
        f"{x}.new_ones({d.shape()}{given})",
        f"ad.eye({d.int(0, 5)}, {d.int(0, 5)}{given})",
        f"ad.tril_indices({d.int(0, 5)}, {d.int(0, 5)}, {d.int(-2, 2)})",
        f"ad.triu_indices({d.int(0, 5)}, {d.int(0, 5)}, {d.int(-2, 2)})",
        f"ad.{d.pick('hann', 'hamming', 'blackman', 'bartlett', 'kaiser')}_window({d.int(0, 9)}{d.options(periodic=(True, False))})",
        f"ad.tensor({d.pick([1, 2.5], [True, 2], [[1], [2]], 3, [], 1.5, [1j, 2])}{given})",
        f"ad.as_tensor({d.pick([1, 2.5], 3)}{given})",
        f"ad.result_type({x}, {d.pick('1', '1.5', '1j', 'True')}) == ad.float32",
        f"ad.can_cast(ad.{dtype}, ad.{d.any()})",
        f"ad.complex({d.t((2, 3), 'float32')}, {d.t((2, 3), 'float32')})",
        f"ad.polar({d.t((2,), 'float64', 'positive')}, {d.t((2,), 'float64')})",
        f"ad.view_as_real({d.t(dtype=d.pick('complex64', 'complex128'))})",
    )


FAMILIES = {
    f.__name__: f
    for f in (unary, binary, bits, ternary, reduction, search, reshaping, joining, picking, product, creation)
}
