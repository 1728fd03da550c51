"""``python -m adjoint.distributed.run``: a program on several ranks of this machine, with torchrun's options.

    python -m adjoint.distributed.run --nproc-per-node=4 program.py argument …

The launcher keeps the store by which the ranks find each other, gives each its variables (RANK, LOCAL_RANK, WORLD_SIZE, …) and its
share of the processors, and puts a rank's number in front of each of its lines. When one fails, the others are ended, and its failure
is shown last. Start reading at `main`, then `_launcher`.
"""

from __future__ import annotations

import argparse
import os
import sys

from adjoint._switches import switches
from adjoint._version import distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get_args_parser", "main"]

SEVERAL_NODES = """\
adjoint.distributed.run starts ranks on this machine; for {nodes} machines use what starts programs there, with the backend "mpi"
(pip install {distribution}[mpi]; init_process_group("mpi")):

    mpirun -n {ranks} --host HOST:{each},HOST:{each} {command}
    srun --nodes={nodes} --ntasks-per-node={each} {command}
"""


class _Take(argparse.Action):
    """An option of torchrun that has no effect here."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> Any:
        setattr(namespace, self.dest, values)


def get_args_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m adjoint.distributed.run",
        description="Run a program on several ranks of this machine.",
    )

    def add(name, help, **words):
        both = [f"--{name}", f"--{name.replace('-', '_')}"] if "-" in name else [f"--{name}"]
        parser.add_argument(*both, help=help, **words)

    add("nproc-per-node", "how many ranks: a number, or cpu (auto) for one per processor", default="1")
    add("nnodes", "how many machines: 1; for more, see what it prints", default="1")
    add("node-rank", "which of them this is", default="0")
    add("standalone", "one machine, any free port (which is so without a port, too)", action="store_true")
    add("rdzv-endpoint", "host:port of the store", default="")
    add("master-addr", "an address of this machine", default="127.0.0.1")
    add("master-port", "the port of the store; 0: one that is free", type=int, default=0)
    add("max-restarts", "how often all ranks are started anew after a failure", type=int, default=0)
    add("monitor-interval", "seconds between looks at the ranks", type=float, default=0.02)
    add("shutdown-timeout", "seconds that ranks have to end when asked to", type=float, default=5.0)
    add("log-dir", "a folder for what each rank prints", default=None)
    add("redirects", "0 prints what ranks print; 1, 2, 3: out, errors, both go to files alone", default="0")
    add("tee", "taken: what goes to files is printed, too", default="0")
    add("role", "the value of ROLE_NAME", default="default")
    add("rdzv-id", "a name of the run", default="none")
    for name in (
        "rdzv-backend",
        "rdzv-conf",
        "start-method",
        "local-addr",
        "local-ranks-filter",
        "event-log-handler",
    ):
        add(name, "taken, and of no effect", default="", action=_Take)
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    add("no-python", "the program is no Python file", action="store_true")
    add("run-path", "run the script by runpy", action="store_true")
    add("use-env", "taken: LOCAL_RANK is always in the environment", action="store_true")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _ranks(text, parser) -> int:
    if text in ("cpu", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if text in ("gpu", "xpu"):
        parser.error(f"--nproc-per-node={text}: there is none here; use a number, or cpu")
    if not text.isdigit() or not int(text):
        parser.error(f"--nproc-per-node={text}: expected a number from 1, or cpu")
    return int(text)


def _command(options) -> list:
    """What each rank runs."""
    program = [options.training_script, *options.training_script_args]
    if options.no_python:
        return program
    start = [sys.executable, "-u"]
    if switches.torch:
        start += ["-m", "adjoint.as_torch"]
    return [*start, *(["-m"] if options.module else []), *program]


def main(args: Any = None) -> None:
    """Run the program of the command line; exits with status 1 if a rank fails."""
    parser = get_args_parser()
    options = parser.parse_args(args)
    each = _ranks(options.nproc_per_node, parser)
    nodes = options.nnodes.rpartition(":")[2]
    if not nodes.isdigit() or not int(nodes):
        parser.error(f"--nnodes={options.nnodes}: expected a number")
    command = _command(options)
    if int(nodes) > 1:
        words = " ".join(["python", *command[2:]] if not options.no_python else command)
        print(
            SEVERAL_NODES.format(
                distribution=distribution, nodes=nodes, each=each, ranks=int(nodes) * each, command=words
            ),
            file=sys.stderr,
        )
        raise SystemExit(2)
    from adjoint.distributed._launcher import Launcher

    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint and not options.standalone:
        host, _, number = options.rdzv_endpoint.rpartition(":")
        host, port = (host, int(number)) if host and number.isdigit() else (options.rdzv_endpoint, port)
    raise SystemExit(Launcher(command, each, host, port, options).run())


if __name__ == "__main__":
    main()
