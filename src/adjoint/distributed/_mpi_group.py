"""`MPIGroup`: collectives by an MPI library, through mpi4py; the backend for ranks on more than one machine.

Buffers are not copied. Calls are MPI's blocking ones, in the order of `_ordered`: no MPI makes progress by itself, so what is not waited
for is done by the group's thread. MPI has no timeouts, and a rank that dies leaves the others waiting: so an uncaught exception ends the
job, and so does a call that outlasts the group's timeout, after saying which. Start reading at `MPIGroup`.
"""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic, sleep

import adjoint as ad
from adjoint import _C
from adjoint._version import distribution
from adjoint.distributed._buffers import bytes_of, for_reading, for_writing
from adjoint.distributed._call import HEADER, read_header
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._ordered import OrderedGroup, hash_of
from adjoint.distributed._reduce_op import AVG, PREMUL_SUM, function
from adjoint.distributed._work import Work

__all__ = ["MPIGroup"]

#: Groups of few ranks compare what they call by a message of so many bytes from each to all; what is short travels with it.
FEW, SLOT = 8, 256
ROOM = SLOT - HEADER
#: Set it to 0 to spare the message by which ranks compare what they call before each collective.
CHECK = "ADJOINT_DISTRIBUTED_CHECK"
_OTHERS = bytes(range(255, -1, -1))
_NAMES = {
    **{ad.uint8: "UINT8_T", ad.int8: "INT8_T", ad.int16: "INT16_T", ad.int32: "INT32_T", ad.int64: "INT64_T"},
    **{ad.float32: "FLOAT", ad.float64: "DOUBLE", ad.bool: "UINT8_T"},
    **{ad.complex64: "C_FLOAT_COMPLEX", ad.complex128: "C_DOUBLE_COMPLEX"},
}
_OPS = {"SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX"}
_OPS |= {"BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}
_OF_BOOLS = {"SUM": "LOR", "MAX": "LOR", "PRODUCT": "LAND", "MIN": "LAND"}


def _end(mpi):
    """Abort the job, after giving mpirun the time to read the output, which it may lose once ranks are killed."""
    sys.stderr.flush()
    sleep(0.2)
    mpi.COMM_WORLD.Abort(1)


def load():
    """mpi4py's MPI, with errors as exceptions and uncaught exceptions that abort the job."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", 1)) > there:
        # Ranks that spin while they wait keep those from computing that they wait for: 4 bytes take 16 ms, not 10 µs.
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"Distributed package doesn't have MPI built in: {error}. Install it by `pip install {distribution}[mpi]`, or mpi4py over the MPI of "
            "this site, and start the program by `mpirun -n RANKS python program.py`"
        ) from None
    if not getattr(sys.excepthook, "_ends_job", False):
        before = sys.excepthook

        def end_job(kind, error, traceback):
            before(kind, error, traceback)
            if not issubclass(kind, KeyboardInterrupt) or MPI.COMM_WORLD.size > 1:
                _end(MPI)

        end_job._ends_job = True  # type: ignore[attr-defined]
        sys.excepthook = end_job
    return MPI


class _Request(Work):
    """A pending MPI request."""

    def __init__(self, group, what, request, tensor, landed=None):
        super().__init__(what, [tensor])
        self._group, self._request, self._landed = group, request, landed
        self._status = group._mpi.Status()

    def is_completed(self):
        if not self._done.is_set() and self._request.Test(self._status):
            self._source = self._status.Get_source()
            if self._landed is not None:
                self._landed()
            self._finish()
        return self._done.is_set()

    def wait(self, timeout=None):
        from adjoint.distributed._stores import seconds

        limit = (seconds(timeout) if timeout is not None else 0) or self._group._timeout
        end, pause = monotonic() + limit, 0.0
        while not self.is_completed():
            if monotonic() > end:
                raise DistBackendError(f"{self._what}: timed out after {limit:g} s")
            sleep(pause)
            pause = min(pause + 1e-6, 1e-3)
        return super().wait()


class MPIGroup(OrderedGroup):
    """Ranks that communicate by MPI.

    Parameters
    ----------
    timeout : timedelta
    name : str
    ranks : list of int, optional
        Those of the parent that are in it, this one among them; without it, all that mpirun has started.
    parent : MPIGroup, optional
    """

    def __init__(self, rank, size, timeout, name, ranks=None, parent=None):
        self._mpi = MPI = load()
        if parent is None:
            self._comm = MPI.COMM_WORLD.Dup()
        else:
            self._comm = parent._comm.Create_group(parent._comm.Get_group().Incl(ranks), hash_of(name) % 1000)
        super().__init__(self._comm.rank, self._comm.size, timeout, name)
        self._compares = self._size > 1 and os.environ.get(CHECK) != "0"
        self._few = self._compares and self._size <= FEW
        self._slot, self._slots = bytearray(SLOT), bytearray(SLOT * self._size)
        self._told = (self._slot, SLOT, MPI.BYTE), (self._slots, SLOT, MPI.BYTE)
        self._firsts = range(0, SLOT * self._size, SLOT)
        #: By dtype and bytes: where what each rank gave lies in the slots.
        self._places: dict = {}
        #: By dtype, count and operation: how an all_reduce was done, for the next one.
        self._known: dict = {}
        #: What all ranks gave to the present call, by rank; None where it did not travel with the headers.
        self._given: list | None = None
        self._types = {dtype: getattr(MPI, word) for dtype, word in _NAMES.items()}
        self._began = 0.0
        threading.Thread(target=self._watch, name="adjoint-mpi-watch", daemon=True).start()

    def getBackendName(self):
        return "mpi"

    def _run(self, call, body):
        self._began = monotonic()
        super()._run(call, body)

    def _agree(self, call):
        """Check that all ranks call the same collective, by a collective that is the same for all of them."""
        self._given = None
        if not self._few:
            if self._compares:
                self._agree_by_extremes(call)
            return
        size = 0
        if (gives := call.gives) is not None:
            size = gives.numel() * gives.element_size()
            if size > ROOM or (call.reduce is not None and call.reduce.op is PREMUL_SUM):
                size = 0
            elif size:
                self._slot[HEADER : HEADER + size] = bytes_of(gives)
        self._tell(call.header)
        if size:
            self._given = self._places.get((gives.dtype, size))
            if self._given is None:
                whole = ad.frombuffer(self._slots, dtype=ad.uint8).view(self._size, SLOT)
                places = list(whole[:, HEADER : HEADER + size].view(gives.dtype).unbind())
                self._given = self._places[gives.dtype, size] = places

    def _tell(self, header):
        """Exchange the headers of all ranks, with small payloads."""
        self._slot[:HEADER] = header
        self._comm.Allgather(*self._told)
        slots = self._slots
        for first in self._firsts:
            if slots[first : first + HEADER] != header:
                said = [read_header(slots[i : i + HEADER]) for i in self._firsts]
                self._disagree(read_header(header), said)

    def _at_once(self, tensor, op):
        if self._pending or self._failure is not None or self._closed or self._forked:
            return False
        mine = _C._flat(tensor, True)
        known = None if mine is None else self._known.get((mine.dtype, mine.numel(), op.value))
        if known is None:
            return False
        head, tail, place, finish = known
        with self._order:
            if self._pending or not self._running.acquire(blocking=False):
                return False
            self._number += 1
            header = head + self._number.to_bytes(8, "little") + tail
        try:
            self._current, self._began = header, monotonic()
            if place is not None:
                self._slot[place] = bytes_of(mine)
            if self._few:
                self._tell(header)
            finish(mine)
        except BaseException as error:
            self._failed(read_header(header), error)
            raise
        finally:
            self._current = None
            self._running.release()
        return True

    def _agree_by_extremes(self, call):
        """For many ranks: the bytewise maximum and minimum of the headers."""
        both = bytearray(call.header + call.header.translate(_OTHERS))
        mine = bytes(both)
        self._comm.Allreduce(self._mpi.IN_PLACE, [both, self._mpi.UINT8_T], self._mpi.MAX)
        if both != mine:
            self._disagree(str(call), self._comm.allgather(str(call)))

    def _disagree(self, call, said):
        other = [f"rank {r} called {text}" for r, text in enumerate(said) if text != call]
        raise DistBackendError(
            f"ranks disagree: rank {self._rank} called {call}, {'; '.join(other)}{self._whose()}"
        )

    def _watch(self):
        """Abort the job when a call exceeds its timeout."""
        while not self._closed:
            sleep(min(1.0, self._timeout / 4))
            call = self._current
            if call is not None and monotonic() - self._began > self._timeout:
                call = read_header(call) if isinstance(call, bytes) else call
                print(
                    f"rank {self._rank}: {call} has not ended after {self._timeout:g} s: a rank has not called it, or has died. The job "
                    "is ended",
                    file=sys.stderr,
                    flush=True,
                )
                _end(self._mpi)

    # --- collectives -------------------------------------------------------------------------------------------------

    def _buffer(self, tensor):
        return bytes_of(tensor), tensor.numel(), self._types[tensor.dtype]

    def _raw(self, tensor):
        return [bytes_of(tensor), self._mpi.BYTE]

    def _reducible(self, tensor):
        """The tensor, converted to float32 if it is of half precision, which MPI lacks."""
        return tensor if tensor.dtype in self._types else tensor.float()

    def _op(self, op, dtype):
        name = _OF_BOOLS.get(op.name) if dtype is ad.bool else None
        return getattr(self._mpi, name or _OPS[op.name])

    def _combiner(self, given, op, dtype):
        """A function that reduces, in rank order, the payloads that came with the headers."""
        (first, *others), join = given, function(op, dtype)

        def combined(mine):
            low = first
            for other in others:
                join(low, other, out=mine)
                low = mine

        return combined

    def _remember(self, call, mine, op, place, finish):
        """Remember how such an all_reduce was done, for the next one."""
        if op.op in (AVG, PREMUL_SUM) or call.label or self._few is not self._compares:
            return
        if len(self._known) > 4096:
            self._known.clear()
        ends = call.header[:16], call.header[24:]  # around the number
        self._known[mine.dtype, mine.numel(), op.value] = (*ends, place, finish)

    def _allreduce(self, call, mine, op):
        if given := self._given:
            finish = self._combiner(given, op, mine.dtype)
            finish(mine)
            place = slice(HEADER, HEADER + mine.numel() * mine.element_size())
            self._remember(call, mine, op, place, finish)
            return
        wide, how = self._reducible(mine), self._op(op, mine.dtype)
        self._comm.Allreduce(self._mpi.IN_PLACE, self._buffer(wide), how)
        if wide is not mine:
            mine.copy_(wide)
            return
        count, kind, here, reduce = (
            mine.numel(),
            self._types[mine.dtype],
            self._mpi.IN_PLACE,
            self._comm.Allreduce,
        )
        self._remember(call, mine, op, None, lambda mine: reduce(here, (bytes_of(mine), count, kind), how))

    def _reduce(self, call, mine, op, root):
        if self._given:
            if self._rank == root:
                self._combiner(self._given, op, mine.dtype)(mine)
            return
        wide = self._reducible(mine)
        send = self._mpi.IN_PLACE if self._rank == root else self._buffer(wide)
        receive = self._buffer(wide) if self._rank == root else None
        self._comm.Reduce(send, receive, self._op(op, mine.dtype), root)
        if wide is not mine and self._rank == root:
            mine.copy_(wide)

    def _reduce_scatter(self, call, there, parts, op):
        together = self._reducible(ad.cat(parts))
        whole = together.new_empty(there.numel())
        counts = [there.numel()] * self._size
        self._comm.Reduce_scatter(
            self._buffer(together), self._buffer(whole), counts, self._op(op, there.dtype)
        )
        there.copy_(whole)

    def _broadcast(self, call, there, root):
        if self._given:
            there.copy_(self._given[root])
        else:
            self._comm.Bcast(self._raw(there), root)

    def _allgather(self, call, parts, mine):
        if self._given:
            for part, found in zip(parts, self._given):
                part.copy_(found)
            return
        whole = ad.empty(self._size * mine.numel(), dtype=mine.dtype)
        self._comm.Allgather(self._raw(mine), self._raw(whole))
        for part, found in zip(parts, whole.view(self._size, -1)):
            part.copy_(found)

    def _gather(self, call, parts, mine, root):
        if self._given:
            for part, found in zip(parts, self._given):
                part.copy_(found)
            return
        whole = ad.empty(self._size * mine.numel(), dtype=mine.dtype) if self._rank == root else None
        self._comm.Gather(self._raw(mine), None if whole is None else self._raw(whole), root)
        if whole is not None:
            for part, found in zip(parts, whole.view(self._size, -1)):
                part.copy_(found)

    def _scatter(self, call, there, parts, root):
        whole = ad.cat(parts) if self._rank == root else None
        self._comm.Scatter(None if whole is None else self._raw(whole), self._raw(there), root)

    def _alltoall(self, call, outputs, inputs):
        width = inputs[0].element_size()

        def packed(tensors):
            counts = [t.numel() * width for t in tensors]
            return counts, [sum(counts[:i]) for i in range(len(counts))]

        send, receive = ad.cat(inputs), ad.empty(sum(t.numel() for t in outputs), dtype=inputs[0].dtype)
        self._comm.Alltoallv(
            [bytes_of(send), packed(inputs), self._mpi.BYTE],
            [bytes_of(receive), packed(outputs), self._mpi.BYTE],
        )
        for out, part in zip(outputs, receive.split([t.numel() for t in outputs])):
            out.copy_(part)

    def _barrier(self, call):
        if not self._few:  # else all have told each other that they are here
            self._comm.Barrier()

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier, under the group's timeout."""
        work = self.barrier()
        work.wait()
        return work

    # --- from rank to rank -------------------------------------------------------------------------------------------

    def send(self, tensors, dst, tag=0):
        (tensor,) = tensors
        self._check_usable("send")
        mine = for_reading(tensor, "send")
        what = f"send of {mine.numel()} {mine.dtype.name} from rank {self._rank} to rank {dst} with tag {tag}"
        return _Request(self, what, self._comm.Isend(self._raw(mine), dst, self._tag(tag)), mine)

    def recv(self, tensors, src, tag=0):
        (tensor,) = tensors
        self._check_usable("recv")
        there, back = for_writing(tensor, "recv")

        def landed():
            if back:
                with ad.no_grad():
                    back[0].copy_(back[1])

        source = self._mpi.ANY_SOURCE if src is None else src
        what = (
            f"recv of {there.numel()} {there.dtype.name} by rank {self._rank} from rank {src} with tag {tag}"
        )
        return _Request(
            self, what, self._comm.Irecv(self._raw(there), source, self._tag(tag)), tensor, landed
        )

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, None, tag)

    def _tag(self, tag):
        # Derivatives' are negative, and MPI's are not: they take the upper half.
        upper = self._mpi.COMM_WORLD.Get_attr(self._mpi.TAG_UB) or 32767
        return tag % (upper // 2) + (upper // 2 if tag < 0 else 0)

    def _leave(self, how):
        if "destroy" in how:
            self._comm.Free()
