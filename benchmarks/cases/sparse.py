"""Sparse tensors: products with dense matrices, `coalesce`, and steps of embeddings with sparse gradients."""

from benchmarks.harness import case, submodule, wave

TARGET = 1.0
ROWS, ENTRIES, WIDTH = 10_000, 100_000, 64


def matrix(m, layout="coo"):
    """10⁵ entries scattered over a matrix of 10⁴ rows and columns, none twice."""
    k = m.arange(ENTRIES) * 7919 * 1009 % (ROWS * ROWS)
    x = m.sparse_coo_tensor(m.stack((k // ROWS, k % ROWS)), wave(m, ENTRIES), (ROWS, ROWS)).coalesce()
    return x if layout == "coo" else x.to_sparse_csr()


for threads in (1, 2):
    for layout in ("coo", "csr"):

        @case(
            f"sparse ({layout}) @ dense, {threads} thread(s)", group="sparse", target=TARGET, threads=threads
        )
        def product(m, layout=layout):
            x, d = matrix(m, layout), wave(m, ROWS, WIDTH)
            return lambda: x @ d

    @case(
        f"sparse (coo) @ dense and both gradients, {threads} thread(s)",
        group="sparse",
        target=TARGET,
        threads=threads,
    )
    def gradients(m):
        x, d = matrix(m).requires_grad_(), wave(m, ROWS, WIDTH, requires_grad=True)
        g = wave(m, ROWS, WIDTH, scale=0.5)
        return lambda: m.autograd.grad(m.sparse.mm(x, d), (x, d), g)[1]

    for name in ("SGD", "SparseAdam", "Adagrad"):

        @case(
            f"embedding of 10⁶ rows of 64, sparse gradient, {name}, 4096 of them, {threads} thread(s)",
            group="sparse",
            target=TARGET,
            threads=threads,
        )
        def step(m, name=name):
            nn, optim = submodule(m, "nn"), submodule(m, "optim")
            layer = nn.Embedding(1_000_000, WIDTH, sparse=True, _weight=m.ones(1_000_000, WIDTH))
            optimizer = getattr(optim, name)(layer.parameters(), lr=1e-6)
            index = m.arange(4096) * 7919 * 1009 % 50_000
            g = wave(m, 4096, WIDTH)

            def run():
                optimizer.zero_grad()
                layer(index).backward(g)
                optimizer.step()
                return layer.weight.grad._values()

            return run


@case("coalesce 10⁵ entries in any order, half of them twice", group="sparse", target=TARGET)
def coalesce(m):
    k = m.arange(ENTRIES) * 7919 % 50_000 * 1999 % (ROWS * ROWS)
    x = m.sparse_coo_tensor(m.stack((k // ROWS, k % ROWS)), wave(m, ENTRIES), (ROWS, ROWS))
    return lambda: x.coalesce().values()
