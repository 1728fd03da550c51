"""Reading and writing by index, over each dimension, with sorted, random and repeated indices, and their gradients.

`READS` and `WRITES` name the operators. A read is a function of a matrix and of its indices; a write is one of
a matrix, its indices and the values that it puts there. Start reading at `declare`.
"""

from benchmarks.harness import case, submodule, wave

ROWS, COLUMNS = 1200, 1000
TARGET = 1.3


def positions(m, kind, count, size):
    """`count` indices below `size`: each once in order (sorted), once in some order (random), or some often (repeated)."""
    i = m.arange(count)
    if kind == "sorted":
        return i * size // count
    if kind == "random":
        # Neither prime divides the sizes here, so that counting in steps of it meets every position once.
        return i * (7919 if count % 7919 else 7907) % size
    return i * i % 97 % size


class Indices:
    """What the operators are given: a vector along a dimension, and a matrix of positions along it."""

    def __init__(self, m, kind, dim):
        size = (ROWS, COLUMNS)[dim]
        self.dim, self.module = dim, m
        self.vector = positions(m, kind, size, size)
        other = m.arange((COLUMNS, ROWS)[dim])
        shifted = self.vector.reshape(-1, 1) + (0 if kind == "repeated" else 1) * 389 * other
        matrix = shifted % (97 if kind == "repeated" else size)
        if kind == "sorted":
            matrix = self.vector.reshape(-1, 1).expand(matrix.shape)
        self.matrix = (matrix if dim == 0 else matrix.T).contiguous()
        self.flat = positions(m, kind, ROWS * COLUMNS, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
        self.rows, self.columns = self.flat // COLUMNS, self.flat % COLUMNS


def embedding(x, i):
    return submodule(i.module, "nn.functional").embedding(i.vector, x)


def indexed(x, i):
    return x[i.vector] if i.dim == 0 else x[:, i.vector]


READS = {
    "x[index]": indexed,
    "index_select": lambda x, i: x.index_select(i.dim, i.vector),
    "gather": lambda x, i: x.gather(i.dim, i.matrix),
}
#: Along no dimension.
POINTS = {
    "take": lambda x, i: x.take(i.flat),
    "x[index, index]": lambda x, i: x[i.rows, i.columns],
}
WRITES = {
    "scatter": lambda x, i, v: x.scatter(i.dim, i.matrix, v),
    "scatter_add": lambda x, i, v: x.scatter_add(i.dim, i.matrix, v),
    "index_add": lambda x, i, v: x.index_add(i.dim, i.vector, v),
    "index_copy": lambda x, i, v: x.index_copy(i.dim, i.vector, v),
    "x[index] = v": lambda x, i, v: x.index_put(index_of(i), v),
    "x[index] += v": lambda x, i, v: x.index_put(index_of(i), v, accumulate=True),
}
#: A write of one value for several elements says nothing of which one stays.
ONCE = {"scatter", "index_copy", "x[index] = v"}


def index_of(i):
    if i.dim == 0:
        return (i.vector,)
    return (i.module.arange(ROWS).reshape(-1, 1), i.vector)


def matrix(m, scale):
    return wave(m, ROWS, COLUMNS, scale=scale)


def read_case(name, f, kind, dim, threads):
    where = f"{name}, dimension {dim}, {kind}, {threads} thread(s)"

    @case(where, group="indexing", target=TARGET, threads=threads)
    def forward(m):
        x, i = matrix(m, 0.013), Indices(m, kind, dim)
        return lambda: f(x, i)

    @case(f"{where}: gradient", group="indexing", target=TARGET, threads=threads)
    def gradient(m):
        x, i = matrix(m, 0.013).requires_grad_(), Indices(m, kind, dim)
        y = f(x, i)
        g = wave(m, *y.shape, scale=0.5)
        return lambda: m.autograd.grad(y, x, g, retain_graph=True)[0]


def write_case(name, f, kind, dim, threads):
    where = f"{name}, dimension {dim}, {kind}, {threads} thread(s)"

    @case(where, group="indexing", target=TARGET, threads=threads)
    def forward(m):
        x, v, i = matrix(m, 0.013), matrix(m, 0.029), Indices(m, kind, dim)
        return lambda: f(x, i, v)

    @case(f"{where}: gradients", group="indexing", target=TARGET, threads=threads)
    def gradient(m):
        x, v, i = matrix(m, 0.013).requires_grad_(), matrix(m, 0.029).requires_grad_(), Indices(m, kind, dim)
        y, g = f(x, i, v), matrix(m, 0.5)
        return lambda: m.autograd.grad(y, (x, v), g, retain_graph=True)[1]


def assigned(x, mask, values):
    y = x.clone()
    y[mask] = values
    return y


#: Functions of a matrix, a mask and a vector with one value for each place where it holds.
MASKED = {
    "x[mask]": lambda x, mask, v: x[mask],
    "masked_select": lambda x, mask, v: x.masked_select(mask),
    "x[mask] = v": assigned,
    "masked_scatter": lambda x, mask, v: x.masked_scatter(mask, v),
}


def mask_case(name, f, threads):
    where = f"{name}, {threads} thread(s)"

    def inputs(m):
        x = matrix(m, 0.013)
        mask = matrix(m, 1.7) > 0.2
        return x, mask, wave(m, int(mask.sum()), scale=0.029)

    @case(where, group="indexing", target=TARGET, threads=threads)
    def forward(m):
        x, mask, v = inputs(m)
        return lambda: f(x, mask, v)

    @case(f"{where}: gradient", group="indexing", target=TARGET, threads=threads)
    def gradient(m):
        x, mask, v = inputs(m)
        y = f(x.requires_grad_(), mask, v.requires_grad_())
        g = wave(m, *y.shape, scale=0.5)
        return lambda: m.autograd.grad(y, x, g, retain_graph=True)[0]


def declare(threads, kinds):
    for kind in kinds:
        for dim in (0, 1):
            for name, f in READS.items():
                read_case(name, f, kind, dim, threads)
            for name, f in WRITES.items():
                if kind != "repeated" or name not in ONCE:
                    write_case(name, f, kind, dim, threads)
        for name, f in {**POINTS, "embedding": embedding}.items():
            read_case(name, f, kind, 0, threads)
    for name, f in MASKED.items():
        mask_case(name, f, threads)


declare(1, ("sorted", "random", "repeated"))
declare(2, ("random",))
