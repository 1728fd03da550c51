"""Chains and a sweep under the schedulers of many runs, each of which gives what a plain loop gives, bit for bit.

    python examples/many_runs.py loop            # or futures, joblib, dask, ray
    mpirun -n 3 python -m mpi4py.futures examples/many_runs.py mpi
    SLURM_ARRAY_TASK_ID=4 python examples/many_runs.py array

Prints a line for each run: what it was, and a digest of the bits of its result. Start reading at `run`.
"""

import hashlib
import multiprocessing
import os
import sys

from chains_in_a_pool import chain

import adjoint as ad

CHAINS, RATES, DRAWS = 4, (0.01, 0.1, 1.0), 20


def settings():
    """What each run is sent: a chain gets a generator of its own, a training of the sweep its number and its rate."""
    generators = ad.Generator().manual_seed(0).spawn(CHAINS)
    return [("chain", g) for g in generators] + [("sweep", k, rate) for k, rate in enumerate(RATES)]


def train(stream, rate):
    """The losses of a small network; its start and its data are drawn from one stream of the default generator."""
    ad.manual_seed(0, stream=stream)
    net = ad.nn.Sequential(ad.nn.Linear(3, 8), ad.nn.Tanh(), ad.nn.Linear(8, 1))
    optimizer = ad.optim.SGD(net.parameters(), lr=rate)
    x = ad.randn(16, 3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return ad.stack(losses)


def run(setting):
    """One run, wherever it is."""
    ad.set_num_threads(1)  # a worker for each processor
    return chain(setting[1], draws=DRAWS) if setting[0] == "chain" else train(*setting[1:])


def by_loop(todo):
    """One after another."""
    return [run(setting) for setting in todo]


def by_futures(todo):
    """The standard library's pool of processes."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(run, todo))


def by_joblib(todo):
    """Joblib's workers."""
    import joblib

    return joblib.Parallel(n_jobs=2)(joblib.delayed(run)(setting) for setting in todo)


def by_dask(todo):
    """A cluster of Dask on this machine; `Client(address)` is one elsewhere."""
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        return client.gather(client.map(run, todo, pure=False))


def by_ray(todo):
    """A cluster of Ray on this machine; `ray.init(address)` is one elsewhere."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        return ray.get([ray.remote(run).remote(setting) for setting in todo])
    finally:
        ray.shutdown()


def by_mpi(todo):
    """Ranks of MPI as workers: the first hands out, the others run."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as pool:
        return list(pool.map(run, todo))


def main(how):
    """The runs, under a scheduler."""
    todo = settings()
    numbers = list(range(len(todo)))
    if how == "array":  # this process is one job of an array, and does one run
        numbers = [int(os.environ["SLURM_ARRAY_TASK_ID"])]
        results = [run(todo[numbers[0]])]
    else:
        results = globals()[f"by_{how}"](todo)
    for number, result in zip(numbers, results):
        digest = hashlib.sha256(result.numpy().tobytes()).hexdigest()[:16]
        print(number, todo[number][0], digest, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
