"""Two ranks on this machine: collectives, data-parallel steps and starting, beside torch's Gloo.

    python benchmarks/processes.py                       # Adjoint alone
    python benchmarks/processes.py --torch PYTHON        # an interpreter that has torch; the two take turns, sample by sample
    mpirun -n 2 python benchmarks/processes.py --mpi     # all_reduce by MPI, beside mpi4py called directly, also without the check

Both pairs of ranks live at once and one is told to go at a time, so that both see the same state of the machine. Start reading at
`main`; `rank` is what each process runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SIZES = (1, 1024, 25_000, 1_000_000, 11_700_000)


def rank(library, number, path):
    """One rank: does what lines of its input name, and answers with seconds of wall clock and processor."""
    if library == "adjoint":
        import adjoint as torch
        import adjoint.distributed as dist
        from adjoint.models import resnet18
        from adjoint.nn.parallel import DistributedDataParallel
    else:
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        resnet18 = None
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=2)
    nn, made = torch.nn, {}

    def model(kind, parallel):
        if (kind, parallel) not in made:
            torch.manual_seed(0)
            if kind == "resnet":
                net, x = resnet18(), torch.randn(24 if parallel else 48, 3, 128, 128)
            elif kind == "wide":
                sizes = [512, 1024, 1024, 1024, 10]
                layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
                net, x = nn.Sequential(*layers[:-1]), torch.randn(128 if parallel else 256, 512)
            else:
                net, x = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)), torch.randn(16, 64)
            y = torch.randint(0, 10, (x.shape[0],))
            net = DistributedDataParallel(net, gradient_as_bucket_view=True) if parallel else net
            made[kind, parallel] = net, x, y, torch.optim.SGD(net.parameters(), lr=1e-3)
        return made[kind, parallel]

    def step(kind, parallel):
        net, x, y, optimizer = model(kind, parallel)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    tensors = {n: torch.zeros(n) for n in SIZES}
    for line in sys.stdin:
        what, *arguments, times = json.loads(line)
        run = {
            "all_reduce": lambda: dist.all_reduce(tensors[arguments[0]]),
            "parallel": lambda: step(arguments[0], True),
            "alone": lambda: number or step(arguments[0], False),
        }[what]
        run()
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            run()
        told = [(time.perf_counter() - wall) / times, (time.process_time() - cpu) / times]
        dist.barrier()
        print(json.dumps(told), flush=True)
    dist.destroy_process_group()


def answer(library):
    """What a worker of a pool does first."""
    import importlib

    return float(importlib.import_module(library).ones(3).sum())


def pool(library):
    """Two spawned workers, until both have answered."""
    import concurrent.futures
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=2, mp_context=context) as workers:
        began = time.perf_counter()
        assert list(workers.map(answer, [library] * 2)) == [3.0] * 2
        print(time.perf_counter() - began)


#: Programs of two processes, from their start to their end.
BARE = "import {0} as torch; torch.ones(1)"
JOINED = """import sys, {0} as torch, {0}.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()"""


def starting(library, python, program):
    """Seconds in which two processes of a program start, run and end."""
    path = os.path.join(tempfile.gettempdir(), f"adjoint-benchmark-{os.getpid()}-{os.urandom(4).hex()}")
    began = time.perf_counter()
    both = [
        subprocess.Popen([python, "-c", program.format(library), path, str(number)]) for number in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    return time.perf_counter() - began


def pooled(library, python):
    """Seconds until two new workers have answered."""
    return float(subprocess.check_output([python, os.path.abspath(__file__), "--pool", library]))


def compare_starts(pythons, samples):
    """Rows of what starting takes, the libraries taking turns."""
    rows = {
        "a pool of two spawned workers answers": lambda *of: pooled(*of),
        "two programs that only import": lambda *of: starting(*of, BARE),
        "two ranks that join, reduce and leave": lambda *of: starting(*of, JOINED),
    }
    for title, measure in rows.items():
        found = {library: [] for library, _ in pythons}
        for _ in range(samples):
            for library, python in pythons:
                found[library].append(measure(library, python))
        show(title, {library: sorted(values)[len(values) // 2] for library, values in found.items()})


def by_mpi():
    """One of the ranks that mpirun started: microseconds of the fastest of short runs, the three ways taking turns."""
    import numpy
    from mpi4py import MPI

    import adjoint as ad
    import adjoint.distributed as dist

    dist.init_process_group("mpi")
    world = MPI.COMM_WORLD.Dup()
    group = dist.group.WORLD
    print_here = print if not dist.get_rank() else lambda *words, **keywords: None
    print_here(f"{'all_reduce of':16}{'Adjoint':>12}{'unchecked':>12}{'mpi4py':>12} us")
    for count, times in zip(SIZES, (200, 200, 50, 5, 1)):
        x, y, best = ad.zeros(count), numpy.zeros(count, numpy.float32), [9.0] * 3

        def direct(y=y):
            world.Allreduce(MPI.IN_PLACE, y, MPI.SUM)

        def ours(x=x):
            dist.all_reduce(x)

        for _ in range(20):
            for way, (call, checks) in enumerate(((ours, True), (ours, False), (direct, True))):
                group._compares = group._few = checks
                group._known.clear()
                call()
                world.Barrier()
                began = time.perf_counter()
                for _ in range(times):
                    call()
                best[way] = min(best[way], (time.perf_counter() - began) / times)
        print_here(
            f"{4 * count:10} bytes" + "".join(f"{seconds * 1e6:12.2f}" for seconds in best), flush=True
        )


class Pair:
    """Both ranks of one library."""

    def __init__(self, library, python):
        self.library = library
        self.path = os.path.join(tempfile.gettempdir(), f"adjoint-benchmark-{os.getpid()}-{library}")
        self.ranks = [
            subprocess.Popen(
                [python, os.path.abspath(__file__), "--rank", library, str(number), self.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]

    def sample(self, *command):
        """Seconds of the slower rank, and of processor of both."""
        for process in self.ranks:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        told = [json.loads(process.stdout.readline()) for process in self.ranks]
        return max(wall for wall, _ in told), sum(cpu for _, cpu in told)

    def end(self):
        """No process stays."""
        for process in self.ranks:
            process.stdin.close()
        for process in self.ranks:
            process.wait(30)


def compare(pairs, title, command, samples, which=0):
    """A row: the median of each library, and the ratio."""
    found = {pair.library: [] for pair in pairs}
    for _ in range(samples):
        for pair in pairs:
            found[pair.library].append(pair.sample(*command)[which])
    middle = {library: sorted(values)[len(values) // 2] for library, values in found.items()}
    show(title, middle)
    return middle["adjoint"]


def show(title, middle):
    """A row of seconds by library."""
    ratio = f"{middle['torch'] / middle['adjoint']:6.2f}x" if len(middle) == 2 else ""
    print(
        f"{title:44}"
        + "".join(f"{library} {value * 1e6:12.1f} us   " for library, value in middle.items())
        + ratio,
        flush=True,
    )


def main():
    """All rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", help="an interpreter that has torch")
    parser.add_argument("--quick", action="store_true", help="fewer samples, and no ResNet")
    parser.add_argument("--starts", action="store_true", help="only what starting takes")
    options = parser.parse_args()
    pythons = [("adjoint", sys.executable)] + ([("torch", options.torch)] if options.torch else [])
    compare_starts(pythons, 3 if options.quick else 9)
    if options.starts:
        return
    pairs = [Pair(*of) for of in pythons]
    try:
        few = 3 if options.quick else 7
        for count, times in zip(SIZES, (300, 200, 100, 10, 2)):
            compare(pairs, f"all_reduce, {4 * count} bytes", ("all_reduce", count, times), few)
        compare(pairs, "step of a small MLP, data parallel", ("parallel", "small", 100), few)
        compare(pairs, "step of a small MLP, alone", ("alone", "small", 100), few)
        compare(pairs, "step of a wide MLP, data parallel, processor", ("parallel", "wide", 3), few, 1)
        compare(pairs, "step of a wide MLP, alone, processor", ("alone", "wide", 3), few, 1)
        if not options.quick:
            for which, name in enumerate(("wall", "processor")):
                both = compare(
                    pairs[:1], f"ResNet-18, 2 x 24 images, {name}", ("parallel", "resnet", 1), 5, which
                )
                one = compare(
                    pairs[:1], f"ResNet-18, 48 images in one, {name}", ("alone", "resnet", 1), 5, which
                )
                found = (
                    f"{one / both / 2:.3f} of ideal" if name == "wall" else f"{both / one:.3f} of one process"
                )
                print(f"{'two ranks, ' + name:44}{found}", flush=True)
    finally:
        for pair in pairs:
            pair.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["--pool"]:
        pool(sys.argv[2])
    elif sys.argv[1:2] == ["--mpi"]:
        by_mpi()
    else:
        main()
