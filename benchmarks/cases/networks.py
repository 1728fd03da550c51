"""Whole training steps of networks of middle size, written by hand: products of a few ten thousand numbers, softmax,
normalisation and an optimiser, where both libraries spend their time in kernels and in what lies between them. Then layers of
`nn`: recurrence and attention.
"""

from benchmarks.harness import case, submodule, wave

WIDTH, HEADS, LAYERS = 128, 4, 4


def parameters_of(m, shapes):
    """Leaves of the given shapes: vectors are 1, matrices small."""
    out = []
    for k, shape in enumerate(shapes):
        p = m.ones(*shape) if len(shape) == 1 else wave(m, *shape, scale=0.61 + 0.01 * k) * shape[-1] ** -0.5
        out.append(p.requires_grad_())
    return out


def block(m, functional, x, p):
    """A layer of a transformer, normalised first: attention and a network with gelu."""
    batch, length, _ = x.shape
    gain, shift, w_in, b_in, w_out, b_out, gain2, shift2, w_up, b_up, w_down, b_down = p
    y = functional.layer_norm(x, (WIDTH,), gain, shift)
    q, k, v = (
        t.reshape(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        for t in functional.linear(y, w_in, b_in).split(WIDTH, -1)
    )
    scores = (q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
    y = (m.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
    x = x + functional.linear(y, w_out, b_out)
    y = functional.layer_norm(x, (WIDTH,), gain2, shift2)
    return x + functional.linear(functional.gelu(functional.linear(y, w_up, b_up)), w_down, b_down)


def transformer(m, length=32, batch=8, tokens=64):
    functional, optim = submodule(m, "nn.functional"), submodule(m, "optim")
    d = WIDTH
    layer = [
        (d,),
        (d,),
        (3 * d, d),
        (3 * d,),
        (d, d),
        (d,),
        (d,),
        (d,),
        (4 * d, d),
        (4 * d,),
        (d, 4 * d),
        (d,),
    ]
    layers = [parameters_of(m, layer) for _ in range(LAYERS)]
    table, places, head = parameters_of(m, [(tokens, d), (length, d), (tokens, d)])
    adam = optim.Adam([table, places, head, *(p for layer in layers for p in layer)], lr=1e-6)
    text = m.arange(batch * length).reshape(batch, length) * 7 % tokens

    def run():
        adam.zero_grad()
        x = functional.embedding(text, table) + places
        for p in layers:
            x = block(m, functional, x, p)
        loss = functional.cross_entropy(functional.linear(x, head).reshape(-1, tokens), text.reshape(-1))
        loss.backward()
        adam.step()
        return loss

    return run


def lstm(m, length=32, batch=8, width=64):
    optim = submodule(m, "optim")
    w, u, b, out = parameters_of(m, [(width, 4 * width), (width, 4 * width), (4 * width,), (width, 1)])
    adam = optim.Adam([w, u, b, out], lr=1e-6)
    series, goal = wave(m, length, batch, width), wave(m, batch, 1, scale=0.9)

    def run():
        adam.zero_grad()
        h = c = m.zeros(batch, width)
        for x in series.unbind(0):
            i, f, g, o = (x @ w + h @ u + b).chunk(4, 1)
            c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
            h = m.sigmoid(o) * m.tanh(c)
        loss = ((h @ out - goal) ** 2).mean()
        loss.backward()
        adam.step()
        return loss

    return run


def recurrent(m, name, features, batch, steps=50):
    """A layer of `nn` over whole sequences, forward and backward."""
    nn = submodule(m, "nn")
    net = getattr(nn, name)(features, features)
    with m.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(wave(m, *p.shape, scale=0.61 + 0.01 * k) * features**-0.5)
    x = wave(m, steps, batch, features)

    def run():
        net.zero_grad()
        loss = net(x)[0].square().mean()
        loss.backward()
        return loss

    return run


def attention(m, length, causal):
    """`scaled_dot_product_attention` of eight heads of 64, forward and backward."""
    functional = submodule(m, "nn.functional")
    leaves = [wave(m, 1, 8, length, 64, scale=s, requires_grad=True) for s in (0.37, 0.61, 0.83)]

    def run():
        for leaf in leaves:
            leaf.grad = None
        loss = functional.scaled_dot_product_attention(*leaves, is_causal=causal).square().mean()
        loss.backward()
        return loss

    return run


for _name in ("LSTM", "GRU", "RNN"):
    for _features, _batch in ((128, 1), (128, 32)):
        case(
            f"nn.{_name}, width {_features}, batch {_batch} × 50, forward and backward",
            group="layers",
            target=1,
        )(lambda m, name=_name, features=_features, batch=_batch: recurrent(m, name, features, batch))
for _threads, _suffix in ((1, ""), (2, ", two threads")):
    for _length in (128, 512, 2048):
        for _causal in (False, True):
            case(
                f"attention, 8 heads of 64, length {_length}{', causal' * _causal}, forward and backward{_suffix}",
                group="layers",
                target=1.1,
                threads=_threads,
            )(lambda m, length=_length, causal=_causal: attention(m, length, causal))
for _threads, _suffix in ((1, ""), (2, ", two threads")):
    for _length in (32, 64):
        case(
            f"transformer, {LAYERS} layers of {WIDTH}, batch 8 × {_length}, Adam, whole step{_suffix}",
            group="training",
            target=2,
            threads=_threads,
        )(lambda m, length=_length: transformer(m, length))
    case(
        f"LSTM by hand, width 64, batch 8 × 32, Adam, whole step{_suffix}",
        group="training",
        target=6,
        threads=_threads,
    )(lstm)
