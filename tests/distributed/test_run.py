"""The launcher: variables, output, the first failure last, restarts, signals, and that nothing stays behind.

Start reading at `launched`.
"""

import os
import signal
import subprocess
import sys
import time

import pytest
from ranks import environment


def launched(folder, program, *options, arguments=(), wait=True):
    """The launcher over a program, whose text this is."""
    path = folder / "program.py"
    path.write_text(program)
    command = [sys.executable, "-m", "adjoint.distributed.run", *options, str(path), *arguments]
    variables = {
        k: v for k, v in environment().items() if k not in ("ADJOINT_NUM_THREADS", "OMP_NUM_THREADS")
    }
    running = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    if not wait:
        return running
    try:
        out, error = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    return running.returncode, out, error


def alive(pid):
    """Whether a process runs; one that has ended and that nobody has asked for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


START = "import os, sys, time, adjoint as ad, adjoint.distributed as dist\n"


def test_ranks_have_their_variables_and_share_of_the_processors(tmp_path):
    code, out, error = launched(
        tmp_path,
        START + "dist.init_process_group()\n"
        "x = ad.ones(1); dist.all_reduce(x)\n"
        "print(dist.get_rank(), int(x), os.environ['LOCAL_RANK'], os.environ['LOCAL_WORLD_SIZE'], dist.get_node_local_rank(),\n"
        "      dist.is_torchelastic_launched(), os.environ['ADJOINT_NUM_THREADS'] == os.environ['OMP_NUM_THREADS'], *sys.argv[1:])\n"
        "dist.destroy_process_group()\n",
        "--nproc-per-node=2",
        "--standalone",
        arguments=["--one", "2"],
    )
    assert code == 0, error
    assert sorted(out.splitlines()) == [f"[{r}] {r} 2 {r} 2 {r} True True --one 2" for r in range(2)]


@pytest.mark.parametrize("how", ["raise", "kill", "exit", "record"])
def test_the_first_failure_is_shown_last_and_nothing_stays(how, tmp_path):
    program = START + (
        "from adjoint.distributed.elastic.multiprocessing.errors import record\n"
        "import subprocess\n"
        "dist.init_process_group()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        "open(f'pids-{dist.get_rank()}', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "@record\n"
        "def main(how):\n"
        "    dist.barrier()\n"
        "    if dist.get_rank() == 1:\n"
        "        if how == 'kill': os.kill(os.getpid(), 9)\n"
        "        if how == 'exit': os._exit(3)\n"
        "        raise ValueError('planted')\n"
        "    dist.barrier()\n"
        "    time.sleep(100)\n"
        "main(sys.argv[1])\n"
    )
    started = time.monotonic()
    code, out, error = launched(tmp_path, program, "--nproc-per-node=3", arguments=[how])
    assert code == 1 and time.monotonic() - started < 20
    last = error[error.index("=" * 60) :]
    assert "rank 1 failed first" in last
    assert {"kill": "SIGKILL", "exit": "status 3"}.get(how, "ValueError: planted") in last
    for rank in range(3):
        for pid in (tmp_path / f"pids-{rank}").read_text().split():
            assert not alive(int(pid))


def test_restarts_logs_and_modules(tmp_path):
    program = START + (
        "dist.init_process_group()\n"
        "dist.barrier()\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and dist.get_rank(): sys.exit(5)\n"
        "print('done', os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
    )
    code, out, error = launched(
        tmp_path,
        program,
        "--nproc_per_node",
        "2",
        "--max_restarts=2",
        "--log_dir",
        str(tmp_path / "logs"),
        "--rdzv_id=name",
    )
    assert code == 0 and "started anew (2 left)" in error and out.count("done 1") == 2
    assert (tmp_path / "logs/name/attempt_1/1/stdout.log").read_text() == "done 1\n"
    (tmp_path / "package.py").write_text("print('as a module', __name__)")
    done = subprocess.run(
        [sys.executable, "-m", "adjoint.distributed.run", "-m", "package"],
        env=environment(PYTHONPATH=environment()["PYTHONPATH"] + os.pathsep + str(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "as a module __main__\n"


def test_a_launcher_that_is_told_to_end_ends_its_ranks(tmp_path):
    program = START + "open(f'pid-{os.environ[\"RANK\"]}', 'w').write(str(os.getpid()))\ntime.sleep(100)\n"
    for number in (signal.SIGTERM, signal.SIGKILL):
        running = launched(tmp_path, program, "--nproc-per-node=2", wait=False)
        pids = [tmp_path / f"pid-{r}" for r in range(2)]
        end = time.monotonic() + 30
        while time.monotonic() < end and not all(p.exists() and p.read_text() for p in pids):
            time.sleep(0.02)
        running.send_signal(number)
        running.communicate(timeout=30)
        end = time.monotonic() + 10
        left = [int(p.read_text()) for p in pids]
        while left and time.monotonic() < end:
            left = [pid for pid in left if alive(pid)]
            time.sleep(0.02)
        assert not left
        [p.unlink() for p in pids]


def test_several_machines_are_sent_to_mpi_and_bad_options_are_refused(tmp_path):
    code, out, error = launched(tmp_path, "", "--nnodes=2", "--nproc-per-node=4")
    assert (
        code == 2
        and "mpirun -n 8 --host HOST:4,HOST:4 python" in error
        and "srun --nodes=2 --ntasks-per-node=4" in error
    )
    for option in ("--nproc-per-node=gpu", "--nproc-per-node=0", "--nnodes=some"):
        code, out, error = launched(tmp_path, "", option)
        assert code == 2 and "error:" in error


def test_torchrun_and_spawn_under_as_torch(tmp_path):
    """Torch's own names for starting lead here."""
    path = tmp_path / "program.py"
    path.write_text(
        "import os, torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "def work(rank, size, path):\n"
        "    dist.init_process_group('gloo', init_method='file://' + path, rank=rank, world_size=size)\n"
        "    x = torch.ones(1); dist.all_reduce(x); print(f'spawned {int(x)}\\n', end=''); dist.destroy_process_group()\n"
        "if __name__ == '__main__':\n"
        "    dist.init_process_group('gloo'); x = torch.ones(1); dist.all_reduce(x); print(f'run {int(x)}\\n', end='')\n"
        "    rank = dist.get_rank(); dist.destroy_process_group()\n"
        f"    if rank == 0: mp.spawn(work, (2, {str(tmp_path / 'meet')!r}), nprocs=2)\n"
    )
    for start in (["torchrun"], ["-m", "torch.distributed.run"]):
        done = subprocess.run(
            [sys.executable, "-m", "adjoint.as_torch", *start, "--nproc_per_node=2", str(path)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = sorted(done.stdout.splitlines())
        assert said == ["[0] run 2", "[0] spawned 2", "[0] spawned 2", "[1] run 2"], done.stderr
