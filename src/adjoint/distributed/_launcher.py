"""`Launcher`: starts ranks, passes on what they print, and ends all when one fails. Start reading at `Launcher.run`."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque

from adjoint._switches import switches
from adjoint.distributed._errors import DistError
from adjoint.distributed._tcp_store import TCPStore
from adjoint.distributed._wire import VARIABLE
from adjoint.distributed.elastic.multiprocessing.errors import ProcessFailure

__all__ = ["Launcher"]

#: How the last line of a rank begins that failed since another had.
_SECOND_HAND = ("DistBackendError", "DistNetworkError", "DistStoreError")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with_parent():
    """In a new rank: let the system end it when the launcher exits, for whatever reason."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class _Rank:
    """One process, and the threads that read what it prints."""

    def __init__(self, number, command, variables, folder, prefix, silent):
        self.number, self.failure = number, None
        self.error_file = os.path.join(variables["TORCHELASTIC_ERROR_FILE"])
        self.last_words: deque = deque(maxlen=200)
        self.process = subprocess.Popen(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        self.readers = []
        for bit, name, source, to in (
            (1, "stdout", self.process.stdout, sys.stdout),
            (2, "stderr", self.process.stderr, sys.stderr),
        ):
            log = open(os.path.join(folder, f"{name}.log"), "wb") if folder else None  # noqa: SIM115
            reader = threading.Thread(
                target=self._pass_on,
                args=(source, None if silent & bit else to, log, prefix, bit == 2),
                daemon=True,
            )
            reader.start()
            self.readers.append(reader)

    def _pass_on(self, source, to, log, prefix, keep):
        with source:
            for line in source:
                if log is not None:
                    log.write(line)
                    log.flush()
                text = line.decode(errors="replace")
                if keep:
                    self.last_words.append(text)
                if to is not None:
                    # One write a line, so that ranks do not mix within one.
                    with contextlib.suppress(OSError, ValueError):
                        to.write(prefix + (text if text.endswith("\n") else text + "\n"))
                        to.flush()
        if log is not None:
            log.close()

    def end(self, number):
        """Send a signal to the process and its descendants."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def traceback(self) -> str:
        """The last traceback that it printed, or recorded; else its last lines."""
        recorded = ProcessFailure(
            self.number, self.process.pid, self.process.returncode, self.error_file
        ).message
        if recorded.startswith("Traceback"):
            return recorded
        words = list(self.last_words)
        starts = [i for i, line in enumerate(words) if line.startswith("Traceback")]
        return "".join(words[starts[-1] :] if starts else words[-20:])

    def is_second_hand(self) -> bool:
        """Whether it failed since another rank had."""
        lines = [line for line in self.traceback().splitlines() if line and not line.startswith(" ")]
        return (
            bool(lines)
            and lines[-1].rpartition(":")[0].count("Dist") > 0
            and any(w in lines[-1] for w in _SECOND_HAND)
        )


class Launcher:
    """The ranks of one program on this machine.

    Parameters
    ----------
    command : list of str
    size : int
        How many ranks.
    host, port
        Where the store is.
    options
        What `run.get_args_parser` gives.
    """

    def __init__(self, command, size, host, port, options):
        self.command, self.size, self.host, self.port, self.options = command, size, host, port, options
        self.ranks: list = []
        self._signal = None
        self._descriptors: list = []

    def run(self) -> int:
        """Run it, with restarts after failures; the exit status."""
        os.environ[VARIABLE] = os.environ.get(VARIABLE) or secrets.token_hex(32)
        try:
            store = TCPStore(self.host, self.port, is_master=True, wait_for_workers=False)
        except DistError as error:
            print(f"adjoint.distributed.run: {error}", file=sys.stderr)
            return 1
        before = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, self._interrupted)
        try:
            for attempt in range(self.options.max_restarts + 1):
                failed = self._attempt(attempt, store)
                if failed is None or self._signal is not None:
                    break
                if attempt < self.options.max_restarts:
                    left = self.options.max_restarts - attempt
                    print(
                        f"rank {failed.number} failed; all are started anew ({left} left)",
                        file=sys.stderr,
                    )
            if self._signal is not None:
                return 128 + self._signal
            if failed is None:
                return 0
            self._tell(failed)
            return 1
        finally:
            self._end_all()
            for descriptor in self._descriptors:
                os.close(descriptor)
            store._close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _error_file(self):
        """The path of an anonymous temporary file, which lives as long as the launcher."""
        descriptor = os.memfd_create("adjoint-error")
        self._descriptors.append(descriptor)
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def _interrupted(self, number, frame):
        self._signal = number

    def _attempt(self, attempt, store):
        """Start all ranks and wait; the one that failed first, or None."""
        options, size = self.options, self.size
        threads = str(max(1, _processors() // size))
        self.ranks = []
        for rank in range(size):
            own = (
                os.path.join(options.log_dir, options.rdzv_id, f"attempt_{attempt}", str(rank))
                if options.log_dir
                else None
            )
            if own:
                os.makedirs(own, exist_ok=True)
            variables = {
                "ADJOINT_NUM_THREADS": threads,
                "OMP_NUM_THREADS": threads,
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(size),
                "GROUP_RANK": "0",
                "GROUP_WORLD_SIZE": "1",
                "ROLE_RANK": str(rank),
                "ROLE_WORLD_SIZE": str(size),
                "ROLE_NAME": options.role,
                "MASTER_ADDR": self.host,
                "MASTER_PORT": str(store.port),
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
                "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
                "TORCHELASTIC_RUN_ID": options.rdzv_id,
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCHELASTIC_ERROR_FILE": self._error_file(),
            }
            prefix = f"[{rank}] " if size > 1 else ""
            silent = int(options.redirects) if options.redirects.isdigit() and own else 0
            try:
                self.ranks.append(_Rank(rank, self.command, variables, own, prefix, silent))
            except OSError as error:
                print(
                    f"{switches.package}.distributed.run: cannot start {self.command[0]}: {error.strerror}",
                    file=sys.stderr,
                )
                self._end_all()
                raise SystemExit(1) from None
        failed = self._watch()
        self._end_all()
        return failed

    def _watch(self):
        """Wait until all have succeeded or one has failed; return the latter."""
        while self._signal is None:
            codes = [rank.process.poll() for rank in self.ranks]
            if any(codes):
                # Those whom its failure ends, too, may be quicker in going than it is.
                time.sleep(0.3)
                failed = [rank for rank in self.ranks if rank.process.poll()]
                for rank in failed:
                    rank.end(signal.SIGKILL)  # what it has started holds its output open
                    for reader in rank.readers:
                        reader.join(1)
                return next((rank for rank in failed if not rank.is_second_hand()), failed[0])
            if None not in codes:
                return None
            time.sleep(self.options.monitor_interval if self.options.monitor_interval < 1 else 0.02)
        return None

    def _end_all(self):
        """End all processes, and pass on all output."""
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.end(signal.SIGTERM)
        end = time.monotonic() + self.options.shutdown_timeout
        for rank in self.ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.process.wait(max(0.01, end - time.monotonic()))
            # Also what it has started and left behind.
            rank.end(signal.SIGKILL)
            rank.process.wait()
            for reader in rank.readers:
                reader.join(1)

    def _tell(self, failed):
        code = failed.process.returncode
        how = f"status {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-code).name}"
        print(
            f"\n{'=' * 60}\nrank {failed.number} failed first (pid {failed.process.pid}), with {how}:\n{failed.traceback().rstrip()}",
            file=sys.stderr,
        )
