"""Sixteen chains of Hamiltonian Monte Carlo in a pool of processes; each draws what it would draw in a plain loop, bit for bit.

python examples/chains_in_a_pool.py
"""

import concurrent.futures
import multiprocessing

import adjoint as ad

PRECISION = ad.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=ad.float64)


def energy(x):
    """Minus the logarithm of the density."""
    return 0.5 * x @ PRECISION @ x


def chain(generator, draws=200, steps=8, size=0.25):
    """The draws of one chain, from a generator of its own."""
    ad.set_num_threads(1)
    slope = ad.func.grad(energy)
    x, kept = ad.zeros(2, dtype=ad.float64), []
    for _ in range(draws):
        p = ad.randn(2, generator=generator, dtype=ad.float64)
        y, q = x, p - size / 2 * slope(x)
        for step in range(steps):
            y = y + size * q
            q = q - size * (0.5 if step == steps - 1 else 1.0) * slope(y)
        change = energy(x) + p @ p / 2 - energy(y) - q @ q / 2
        if ad.rand((), generator=generator, dtype=ad.float64).log() < change:
            x = y
        kept.append(x)
    return ad.stack(kept)


def main(chains=16, workers=2, draws=200):
    """Both ways; the chains, and whether they are the same."""
    spawned = lambda: ad.Generator().manual_seed(0).spawn(chains)  # noqa: E731
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        parallel = ad.stack(list(pool.map(chain, spawned(), [draws] * chains)))
    alone = ad.stack([chain(generator, draws) for generator in spawned()])
    return parallel, ad.equal(parallel, alone)


if __name__ == "__main__":
    samples, same = main()
    flat = samples.reshape(-1, 2)
    print("the same as a plain loop:", same)
    print("covariance:", [[round(v, 2) for v in row] for row in ad.cov(flat.T).tolist()])
    print("should be: ", [[round(v, 2) for v in row] for row in ad.linalg.inv(PRECISION).tolist()])
