"""The examples of several processes do what they say; draws of runs are those of a plain loop under every pool that is installed.

Start reading at `on_ranks`.
"""

import importlib.util
import multiprocessing
import pathlib
import re
import subprocess
import sys

import pytest
from ranks import environment

import adjoint as ad

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))


def on_ranks(name, *arguments, n=2):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "adjoint.distributed.run",
            f"--nproc-per-node={n}",
            str(EXAMPLES / name),
            *arguments,
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_halo_exchange_has_the_gradient_of_one_process():
    values, gradients = re.findall(r"by ([\d.e+-]+)", on_ranks("halo_exchange.py", n=4))
    assert float(values.rstrip(",")) < 1e-14 and float(gradients) < 1e-14


def test_data_on_ranks_give_the_posterior():
    text = on_ranks("sharded_hmc.py")
    mean, truth = (list(map(float, part.split(","))) for part in re.findall(r"\[([^\]]*)\]", text[3:]))
    assert all(abs(m - t) < 0.6 for m, t in zip(mean, truth))


def test_data_parallel_training_has_the_gradients_of_one_process():
    text = on_ranks("data_parallel_resnet18.py", "8", "32", "4")
    assert float(re.search(r"by ([\de.-]+);", text).group(1)) < 1e-4


def pools():
    """Ways to run a function over generators in two workers; None where the package is not installed."""

    def standard(function, generators):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            return pool.map(function, generators)

    def joblib(function, generators):
        import joblib

        return joblib.Parallel(n_jobs=2)(joblib.delayed(function)(g) for g in generators)

    def dask(function, generators):
        from dask.distributed import Client

        with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
            return client.gather(client.map(function, generators, pure=False))

    def ray(function, generators):
        import ray

        ray.init(num_cpus=2, include_dashboard=False)
        try:
            return ray.get([ray.remote(function).remote(g) for g in generators])
        finally:
            ray.shutdown()

    return {"multiprocessing": standard, "joblib": joblib, "dask": dask, "ray": ray}


@pytest.mark.parametrize("name", pools())
def test_chains_are_the_same_in_every_pool(name, monkeypatch):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"] + ":" + str(EXAMPLES))
    import chains_in_a_pool as example

    spawned = lambda: ad.Generator().manual_seed(4).spawn(3)  # noqa: E731
    found = pools()[name](SHORT, spawned())
    alone = [SHORT(g) for g in spawned()]
    assert all(ad.equal(a, b) for a, b in zip(found, alone)) and len(alone) == 3
    assert example.energy(alone[0][-1]) > 0


class _Short:
    """`chain` with few draws, as a thing that pickles."""

    def __call__(self, generator):
        import chains_in_a_pool as example

        threads = ad.get_num_threads()
        try:
            return example.chain(generator, draws=10)
        finally:
            ad.set_num_threads(threads)


SHORT = _Short()
