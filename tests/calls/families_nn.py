"""Random calls of nn.functional and of layers with filled parameters. Start reading at `FAMILIES`."""

ACTIVATIONS = {
    "relu": {},
    "relu6": {},
    "elu": {"alpha": (1.0, 0.5)},
    "selu": {},
    "celu": {"alpha": (1.0, 2.0)},
    "gelu": {"approximate": ("none", "tanh")},
    "silu": {},
    "mish": {},
    "softplus": {"beta": (1, 2, 0.5), "threshold": (20, 1)},
    "softshrink": {"lambd": (0.5, 0.1)},
    "hardshrink": {"lambd": (0.5, 0.1)},
    "tanhshrink": {},
    "hardtanh": {"min_val": (-1.0, -0.2), "max_val": (1.0, 0.3)},
    "hardsigmoid": {},
    "hardswish": {},
    "leaky_relu": {"negative_slope": (0.01, 0.3)},
    "logsigmoid": {},
    "softsign": {},
    "tanh": {},
    "sigmoid": {},
}
REDUCTIONS = ("mean", "sum", "none")


def activation(d):
    dtype = d.floating()
    if d.chance(0.2):
        shape = d.shape(1, 3)
        x = d.t(shape, dtype)
        dim = d.dim(len(shape))
        return d.pick(
            f"F.softmax({x}, dim={dim})",
            f"F.log_softmax({x}, dim={dim})",
            f"F.softmin({x}, dim={dim})",
            f"F.glu({x}, dim={dim})",
            f"F.normalize({x}, p={d.pick(1, 2, 3.0)}, dim={dim})",
            f"F.prelu({x}, {d.t((shape[1] if len(shape) > 1 and d.chance(0.5) else 1,), dtype)})",
            f"F.threshold({x}, {d.pick(0.1, -0.2)}, {d.pick(0, 7.0)})",
        )
    name = d.pick(sorted(ACTIVATIONS))
    return f"F.{name}({d.t(dtype=dtype, kind=d.pick('normal', 'normal', 'any'))}{d.options(**ACTIVATIONS[name])})"


def per(d, n, low, high):
    """A number for each of n dimensions, or one for all."""
    return d.int(low, high) if d.chance(0.5) else tuple(d.int(low, high) for _ in range(n))


def image(d, n, channels, most=8, batch=True):
    sizes = tuple(d.int(1, most) for _ in range(n))
    return ((d.int(0, 1) * 3 if d.chance(0.1) else d.int(1, 3),) if batch else ()) + (channels,) + sizes


def convolution(d):
    n, dtype = d.int(1, 3), d.floating() if d.chance(0.93) else "complex64"
    groups = d.pick(1, 1, 2, 3)
    a, b = groups * d.int(1, 3), groups * d.int(1, 3)
    kernel = tuple(d.int(1, 4) for _ in range(n))
    x = d.t(image(d, n, a, 9 if n < 3 else 5, d.chance(0.9)), dtype)
    more = f", stride={per(d, n, 1, 3)}, groups={groups}" + (
        f", dilation={per(d, n, 1, 2)}" if d.chance(0.4) else ""
    )
    bias = d.t((b,), dtype) if d.chance(0.6) else "None"
    if d.chance(0.3):
        padding = f", padding={per(d, n, 0, 1)}" if d.chance(0.5) else ""
        output = f", output_padding={per(d, n, 0, 1)}" if d.chance(0.3) else ""
        return f"F.conv_transpose{n}d({x}, {d.t((a, b // groups, *kernel), dtype)}, {bias}{more}{padding}{output})"
    padding = f", padding={d.pick(per(d, n, 0, 2), repr('valid'), 0)}" if d.chance(0.6) else ""
    if d.chance(0.05):
        more, padding = f", groups={groups}", ", padding='same'"
    return f"F.conv{n}d({x}, {d.t((b, a // groups, *kernel), dtype)}, {bias}{more}{padding})"


def pooling(d):
    n = d.int(1, 3)
    x = d.t(image(d, n, d.int(1, 4), 9 if n < 3 else 5, d.chance(0.9)), d.floating())
    kernel, stride = per(d, n, 1, 4), d.pick("None", per(d, n, 1, 3))
    padding = per(d, n, 0, 1) if d.chance(0.5) else 0
    ceil = d.options(ceil_mode=(True, False))
    size = d.pick(per(d, n, 1, 5), per(d, n, 1, 3))
    return d.pick(
        f"F.max_pool{n}d({x}, {kernel}, {stride}, {padding}{d.options(dilation=(1, 2))}{ceil})",
        f"F.max_pool{n}d({x}, {kernel}, {stride}, {padding}, return_indices=True)",
        f"F.avg_pool{n}d({x}, {kernel}, {stride}, {padding}{ceil}{d.options(count_include_pad=(True, False))})",
        f"F.adaptive_avg_pool{n}d({x}, {size})",
        f"F.adaptive_max_pool{n}d({x}, {size})",
        f"F.lp_pool{n}d({x}, {d.pick(1, 2, 3)}, {kernel}, {stride}{ceil})",
        f"F.max_unpool{n}d(*F.max_pool{n}d({x}, 2, return_indices=True), 2)",
    )


def normalization(d):
    n, c, dtype = d.int(0, 3), d.int(1, 4) * 2, d.floating()
    shape = (d.int(1, 4), c, *(d.int(1, 5) for _ in range(n)))
    x = d.t(shape, dtype)
    pair = d.pick("None, None", f"{d.t((c,), dtype)}, {d.t((c,), dtype)}")
    tail = shape[-d.int(1, len(shape)) :]
    last = d.pick("", f", {d.t(tail, dtype)}, {d.t(tail, dtype)}")
    weight = d.pick("", f", {d.t(tail, dtype)}")
    eps = d.options(eps=(1e-5, 1e-2))
    mean = d.t((c,), dtype, grad=False, layout="plain")  # they are written
    var = d.t((c,), dtype, "positive", grad=False, layout="plain")
    return d.pick(
        f"F.layer_norm({x}, {tail}{last}{eps})",
        f"F.rms_norm({x}, {tail}{weight}{eps})",
        f"F.group_norm({x}, {d.pick(1, 2, c)}, {pair}{eps})",
        f"F.batch_norm({x}, {mean}, {var}, {pair}, training={d.chance(0.5)}{eps})",
        f"F.batch_norm({x}, None, None, {pair}, training=True{eps})",
        f"F.instance_norm({x}, weight=None, bias=None{eps})",
        f"F.local_response_norm({x}, {d.int(1, 4)}{d.options(alpha=(1e-2,), beta=(0.5,), k=(2.0,))})",
    )


def loss(d):
    dtype, shape = d.floating(), d.shape(1, 3)
    x, y = d.t(shape, dtype), d.t(shape, dtype)
    unit, target = d.t(shape, dtype, "unit"), d.t(shape, dtype, "unit")
    sign = (
        d.t(values=d.np.choice([-1.0, 1.0], shape), dtype=dtype, grad=False)
        if dtype in ("float64",)
        else d.t(shape, dtype, grad=False)
    )
    reduction = d.pick(REDUCTIONS)
    r = f", reduction={reduction!r}"
    mean = r if reduction != "mean" or d.chance(0.5) else ", reduction='batchmean'"
    return d.pick(
        f"F.mse_loss({x}, {y}{r})",
        f"F.l1_loss({x}, {y}{r})",
        f"F.smooth_l1_loss({x}, {y}{r}{d.options(beta=(0.5, 1.0, 2.0))})",
        f"F.huber_loss({x}, {y}{r}{d.options(delta=(0.5, 2.0))})",
        f"F.kl_div({x}, {target}{mean}{d.options(log_target=(True, False))})",
        f"F.binary_cross_entropy({unit}, {target}{r})",
        f"F.binary_cross_entropy_with_logits({x}, {target}{r}, pos_weight={d.pick('None', d.t(shape[-1:], dtype, 'positive'))})",
        f"F.soft_margin_loss({x}, {sign}{r})",
        f"F.hinge_embedding_loss({x}, {sign}{r}{d.options(margin=(0.5,))})",
        f"F.poisson_nll_loss({x}, {target}{r}{d.options(log_input=(True, False), full=(True, False))})",
        f"F.gaussian_nll_loss({x}, {y}, {unit}{r}{d.options(full=(True, False))})",
        f"F.margin_ranking_loss({x}, {y}, {sign}{r}{d.options(margin=(0.3,))})",
        f"F.cosine_similarity({x}, {y}, dim={d.dim(len(shape))})",
        f"F.pairwise_distance({x}, {y}{d.options(p=(1.0, 2.0, 3.0), keepdim=(True,))})",
        f"F.triplet_margin_loss({x}, {y}, {unit}{r}{d.options(margin=(0.5,), swap=(True,))})",
    )


def classes(d):
    dtype, n, c = d.floating(), d.int(1, 4), d.int(1, 5)
    rest = tuple(d.int(1, 3) for _ in range(d.pick(0, 0, 1, 2)))
    x = d.t((n, c, *rest), dtype)
    y = d.index((n, *rest), c)
    weight = d.pick("None", d.t((c,), dtype, "positive", grad=False))
    reduction = d.pick(REDUCTIONS)
    more = f", weight={weight}, reduction={reduction!r}{d.options(ignore_index=(-100, 0, 1))}"
    rows = d.t((n, c), dtype)
    return d.pick(
        f"F.cross_entropy({x}, {y}{more}{d.options(label_smoothing=(0.0, 0.2))})",
        f"F.cross_entropy({x}, {d.t((n, c, *rest), dtype, 'unit')}, weight={weight}, reduction={reduction!r}{d.options(label_smoothing=(0.1,))})",
        f"F.nll_loss({x}, {y}{more})",
        f"F.multi_margin_loss({rows}, {d.index((n,), c)}, reduction={reduction!r}{d.options(p=(1, 2), margin=(0.5,))})",
        f"F.multilabel_soft_margin_loss({rows}, {d.t((n, c), dtype, 'unit', grad=False)}, reduction={reduction!r})",
        f"F.multilabel_margin_loss({rows}, {d.index((n, c), c)}, reduction={reduction!r})",
        f"F.cosine_embedding_loss({rows}, {d.t((n, c), dtype)}, {d.t(values=d.np.choice([-1, 1], n), dtype='int64')}, reduction={reduction!r})",
        ctc(d),
    )


def ctc(d):
    steps, n, c, most = d.int(1, 8), d.int(1, 3), d.int(2, 5), d.int(0, 4)
    logs = f"F.log_softmax({d.t((steps, n, c), d.pick('float32', 'float64'))}, -1)"
    targets = d.t(values=d.np.integers(1, c, (n, most)), dtype=d.pick("int64", "int32"))
    lengths = tuple(d.int(0, most) for _ in range(n))
    steps = tuple(d.int(1, steps) for _ in range(n))
    return f"F.ctc_loss({logs}, {targets}, {steps}, {lengths}, reduction={d.pick(REDUCTIONS)!r}{d.options(zero_infinity=(True, False))})"


def sampling(d):
    n, dtype = d.int(1, 3), d.floating()
    x = d.t(image(d, n, d.int(1, 3), 6), dtype)
    grid_n = d.int(2, 3)
    g = d.t(image(d, grid_n, d.int(1, 3), 5), dtype)
    batch = d.tensors[g].values.shape[0]
    out = tuple(d.int(1, 4) for _ in range(grid_n))
    grid = d.t((batch, *out, grid_n), dtype)
    modes = {
        1: ("nearest", "linear", "area", "nearest-exact"),
        2: ("nearest", "bilinear", "bicubic", "area", "nearest-exact"),
        3: ("nearest", "trilinear", "area"),
    }
    mode = d.pick(modes[n])
    corners = d.options(align_corners=(True, False)) if "linear" in mode or mode == "bicubic" else ""
    size = (
        f"size={per(d, n, 1, 9)}"
        if d.chance(0.5)
        else f"scale_factor={d.pick(0.5, 2, 1.7, 3)}" + d.options(recompute_scale_factor=(True,))
    )
    mode2 = d.pick("bilinear", "nearest", *(("bicubic",) if grid_n == 2 else ()))
    return d.pick(
        f"F.interpolate({x}, {size}, mode={mode!r}{corners}{', antialias=True' if mode in ('bilinear', 'bicubic') and d.chance(0.2) else ''})",
        f"F.grid_sample({g}, {grid}, mode={mode2!r}, padding_mode={d.pick('zeros', 'border', 'reflection')!r}, align_corners={d.chance(0.5)})",
        f"F.affine_grid({d.t((2, 2, 3), dtype)}, {(2, d.int(1, 2), d.int(1, 4), d.int(1, 4))}, align_corners={d.chance(0.5)})",
    )


def padding(d):
    shape = d.shape(1, 5, 5)
    n, x = len(shape), d.t(shape, d.any())
    mode = d.pick("constant", "reflect", "replicate", "circular")
    if mode == "constant":
        pads = tuple(d.int(-1, 3) for _ in range(2 * d.int(1, n)))
        return f"F.pad({x}, {pads}{d.options(value=(0, 1.5, -1))})"
    pads = tuple(d.int(-1 if d.chance(0.1) else 0, 2) for _ in range(2 * max(1, min(3, n - d.int(1, 2)))))
    return f"F.pad({x}, {pads}, mode={mode!r})"


def layout(d):
    dtype, k = d.floating(), d.int(1, 3)
    x = d.t((d.int(1, 2), 2 * k * k, d.int(1, 4) * k, d.int(1, 4) * k), dtype)
    f = d.t((d.int(1, 2), 2 * 4, 9), dtype)
    return d.pick(
        f"F.pixel_shuffle({x}, {k})",
        f"F.pixel_unshuffle({x}, {k})",
        f"F.channel_shuffle({x}, {d.pick(1, 2, k)})",
        f"F.unfold({x}, {per(d, 2, 1, 3)}{d.options(stride=(1, 2), padding=(0, 1), dilation=(1, 2))})",
        f"F.fold({f}, (4, 4), 2{d.options(padding=(0,))})",
        f"F.one_hot({d.index(d.shape(0, 2), 4)}, {d.pick(-1, 4, 6)})",
    )


def tables(d):
    rows, width, dtype = d.int(1, 6), d.int(1, 4), d.floating()
    w = d.t((rows, width), dtype)
    i = d.index(d.shape(0, 3), rows)
    flat = d.int(1, 7)
    bag = d.index((flat,), rows)
    offsets = d.t(values=sorted([0, *(d.int(0, flat) for _ in range(d.int(0, 3)))]), dtype="int64")
    weights = (
        f", per_sample_weights={d.t((flat,), dtype)}, mode='sum'"
        if d.chance(0.4)
        else f", mode={d.pick('sum', 'mean', 'max')!r}"
    )
    return d.pick(
        f"F.embedding({i}, {w}{d.options(padding_idx=(0, -1), scale_grad_by_freq=(True,))})",
        f"F.embedding_bag({bag}, {w}, {offsets}{weights}{d.options(padding_idx=(0,))})",
        f"F.linear({d.t((*d.shape(0, 2), width), dtype)}, {w}, {d.pick('None', d.t((rows,), dtype))})",
        f"F.bilinear({d.t((3, 2), dtype)}, {d.t((3, width), dtype)}, {d.t((rows, 2, width), dtype)}, {d.pick('None', d.t((rows,), dtype))})",
    )


def attention(d):
    dtype, lead = d.floating(), tuple(d.int(1, 3) for _ in range(d.int(1, 2)))
    q, k, e, v = d.int(1, 5), d.int(1, 5), d.int(1, 5), d.int(1, 5)
    mask = d.pick("None", "None", d.mask((q, k)), d.t((*lead, q, k), dtype))
    causal = ", is_causal=True" if mask == "None" and d.chance(0.4) else ""
    return (
        f"F.scaled_dot_product_attention({d.t((*lead, q, e), dtype)}, {d.t((*lead, k, e), dtype)}, {d.t((*lead, k, v), dtype)}, "
        f"attn_mask={mask}{causal}{d.options(scale=(0.5, 1.0))})"
    )


def layer(d):
    width, hidden, steps, n = d.int(1, 4), d.int(1, 4), d.int(1, 5), d.int(1, 3)
    first = d.chance(0.5)
    shape = (n, steps, width) if first else (steps, n, width)
    x = d.t(shape, "float32")
    options = (
        f"num_layers={d.int(1, 2)}, batch_first={first}, bidirectional={d.chance(0.4)}, bias={d.chance(0.8)}"
    )
    e = d.t((steps, n, 4), "float32")
    c = d.t((n, 4, 5, 5), "float32")
    return d.pick(
        f"fill(ad.nn.LSTM({width}, {hidden}, {options}{', proj_size=1' if hidden > 1 and d.chance(0.2) else ''}))({x})",
        f"fill(ad.nn.GRU({width}, {hidden}, {options}))({x})",
        f"fill(ad.nn.RNN({width}, {hidden}, {options}, nonlinearity={d.pick('tanh', 'relu')!r}))({x})",
        f"fill(ad.nn.LSTMCell({width}, {hidden}))({x}[0])",
        f"fill(ad.nn.GRUCell({width}, {hidden}))({x}[0])",
        f"fill(ad.nn.MultiheadAttention(4, {d.pick(1, 2)}, bias={d.chance(0.7)}{d.options(add_bias_kv=(True,), add_zero_attn=(True,))}))({e}, {e}, {e}, need_weights={d.chance(0.5)})",
        f"fill(ad.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation={d.pick('relu', 'gelu')!r}, norm_first={d.chance(0.5)}))({e})",
        f"fill(ad.nn.BatchNorm2d(4{d.options(momentum=(None, 0.3), affine=(False,), track_running_stats=(False,))}))({c})",
        f"fill(ad.nn.Conv2d(4, 2, 3, padding=1, padding_mode={d.pick('zeros', 'reflect', 'replicate', 'circular')!r}))({c})",
        f"fill(ad.nn.Bilinear(4, 4, 2))({e}, {e})",
    )


FAMILIES = {
    f.__name__: f
    for f in (
        activation,
        convolution,
        pooling,
        normalization,
        loss,
        classes,
        sampling,
        padding,
        layout,
        tables,
        attention,
        layer,
    )
}
