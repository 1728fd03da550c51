"""Linear algebra, with gradients: batches of small matrices, where calls decide, and single matrices, where LAPACK does."""

from benchmarks.harness import case, submodule, wave


def decomposed(m, name, count, n, dtype):
    """A function of `linalg` on a batch, and the gradient of the sum of its results."""
    linalg, dtype = submodule(m, "linalg"), getattr(m, dtype)
    a = wave(m, count, n, n).to(dtype) + 2 * m.eye(n, dtype=dtype)
    if name in ("cholesky", "eigh"):
        a = a @ a.mT / n
    if name == "det" and n > 100:  # in range
        a = a / n + m.eye(n, dtype=dtype)
    b = wave(m, count, n, 2, scale=0.61).to(dtype)
    run_one = {
        "solve": lambda x: linalg.solve(x, b),
        "solve_triangular": lambda x: linalg.solve_triangular(x, b, upper=False),
        # Of vectors only what does not depend on their signs.
        "eigh": lambda x: (lambda r: r[0] + (r[1] * r[1])[..., 0])(linalg.eigh(x)),
        "qr": lambda x: (lambda r: r[0] * r[0] + r[1] * r[1])(linalg.qr(x)),
    }.get(name) or getattr(linalg, name)
    a.requires_grad_()

    def run():
        a.grad = None
        loss = run_one(a).sum()
        loss.backward()
        return loss

    return run


for _name in ("solve", "inv", "cholesky", "det", "solve_triangular", "eigh", "qr", "svdvals"):
    for _count, _n, _target in ((200, 16, 2), (10_000, 3, 2), (1, 500, 1)):
        for _dtype in ("float32", "float64"):
            case(
                f"linalg.{_name} of {_count} × {_n} × {_n}, {_dtype}, forward and backward",
                group="linalg",
                target=_target,
            )(
                lambda m, name=_name, count=_count, n=_n, dtype=_dtype: decomposed(m, name, count, n, dtype),
            )
