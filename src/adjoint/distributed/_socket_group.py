"""`SocketGroup`: collectives over the connections of a `Mesh`; the backend that programs call "gloo".

Small messages are combined by recursive doubling (log₂ n steps), large ones by a ring (each element travels twice, whatever n is);
a root's go by a binomial tree. Wherever values are combined, those of lower ranks stand first, or one rank does it for all: so all
ranks have the same bits, in every run. Start reading at `SocketGroup._allreduce`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint._types import Any
from adjoint.distributed._buffers import bytes_of, for_reading, for_writing
from adjoint.distributed._mesh import SMALL, Mesh
from adjoint.distributed._ordered import OrderedGroup
from adjoint.distributed._reduce_op import combine
from adjoint.distributed._stores import as_timedelta
from adjoint.distributed._work import Done

__all__ = ["SocketGroup"]


class SocketGroup(OrderedGroup):
    """Ranks on one machine that communicate by sockets.

    Parameters
    ----------
    store : Store
        By which they find each other.
    rank, size : int
    timeout : timedelta
    name : str
        The same on all ranks.
    """

    def __init__(self, store, rank, size, timeout, name="0"):
        super().__init__(rank, size, timeout, name)
        self._store = store
        self._mesh: Any = Mesh(store, rank, size, self._timeout, self._doing) if size > 1 else None
        if self._mesh is not None:
            self._mesh.side.whose = self._whose
        self._scratch = ad.empty(SMALL, dtype=ad.uint8)
        self._views: dict = {}

    def getBackendName(self):
        return "gloo"

    def _place(self, count, dtype):
        """A receive buffer, reused by the next call."""
        if count * dtype.itemsize > SMALL:
            return ad.empty(count, dtype=dtype)
        if dtype not in self._views:
            self._views[dtype] = self._scratch.view(dtype)
        return self._views[dtype][:count]

    # --- combinations ------------------------------------------------------------------------------------------------

    def _allreduce(self, call, mine, op):
        if self._size == 1:
            return
        if mine.numel() * mine.element_size() <= SMALL:
            self._double(call, mine, op)
        else:
            self._ring(call, mine, op)

    def _double(self, call, mine, op):
        """In step k, blocks of 2ᵏ neighbours exchange what they have. Ranks beyond a power of two join their neighbours first."""
        rank, size, mesh = self._rank, self._size, self._mesh
        out, theirs = bytes_of(mine), self._place(mine.numel(), mine.dtype)
        into = bytes_of(theirs)
        power = 1 << (size.bit_length() - 1)
        beyond = size - power
        if rank < 2 * beyond:
            if rank % 2:
                mesh.send(call, rank - 1, out)
                mesh.receive(call, rank - 1, out)
                return
            mesh.receive(call, rank + 1, into)
            combine(op, mine, theirs, mine)
        number, step = (rank // 2 if rank < 2 * beyond else rank - beyond), 1
        while step < power:
            other = number ^ step
            peer = 2 * other if other < beyond else other + beyond
            mesh.exchange(call, peer, out, peer, into)
            combine(op, *((mine, theirs) if number < other else (theirs, mine)), mine)
            step *= 2
        if rank < 2 * beyond:
            mesh.send(call, rank + 1, out)

    def _ring(self, call, mine, op):
        """Ring all_reduce: each rank reduces one part of the whole, then the parts are passed around."""
        rank, size, mesh = self._rank, self._size, self._mesh
        count, width, out = mine.numel(), mine.element_size(), bytes_of(mine)
        bounds = [count * i // size for i in range(size + 1)]
        after, before = (rank + 1) % size, (rank - 1) % size
        theirs = self._place(max(b - a for a, b in zip(bounds, bounds[1:])), mine.dtype)
        into = bytes_of(theirs)

        def part(i):
            i %= size
            return bounds[i], bounds[i + 1]

        for step in range(size - 1):
            (a, b), (c, d) = part(rank - step), part(rank - step - 1)
            mesh.exchange(call, after, out[a * width : b * width], before, into[: (d - c) * width])
            combine(op, theirs[: d - c], mine[c:d], mine[c:d])
        for step in range(size - 1):
            (a, b), (c, d) = part(rank + 1 - step), part(rank - step)
            mesh.exchange(call, after, out[a * width : b * width], before, out[c * width : d * width])

    def _reduce(self, call, mine, op, root):
        """Binomial tree: in step k, every other block of 2ᵏ sends its partial result to its neighbour. Overwrites `mine`."""
        size, mesh = self._size, self._mesh
        place, step = (self._rank - root) % size, 1
        while step < size:
            if place & step:
                mesh.send(call, (place - step + root) % size, bytes_of(mine))
                return
            if place + step < size:
                theirs = self._place(mine.numel(), mine.dtype)
                mesh.receive(call, (place + step + root) % size, bytes_of(theirs))
                combine(op, mine, theirs, mine)
            step *= 2

    def _reduce_scatter(self, call, there, parts, op):
        """The first half of the ring: the reduced part r ends at rank r."""
        rank, size, mesh = self._rank, self._size, self._mesh
        after, before = (rank + 1) % size, (rank - 1) % size
        passing = parts[(rank - 1) % size]
        for step in range(size - 1):
            theirs = ad.empty(there.numel(), dtype=there.dtype)
            mesh.exchange(call, after, bytes_of(passing), before, bytes_of(theirs))
            combine(op, theirs, parts[(rank - step - 2) % size], theirs)
            passing = theirs
        there.copy_(passing)

    # --- movements ---------------------------------------------------------------------------------------------------

    def _broadcast(self, call, there, root):
        size, mesh, data = self._size, self._mesh, bytes_of(there)
        place, step = (self._rank - root) % size, 1
        while step < size:
            step *= 2
        if place:
            mesh.receive(call, (place - (place & -place) + root) % size, data)
            step = place & -place
        while step > 1:
            step //= 2
            if place + step < size:
                mesh.send(call, (place + step + root) % size, data)

    def _allgather(self, call, parts, mine):
        rank, size, mesh = self._rank, self._size, self._mesh
        parts[rank].copy_(mine)
        after, before = (rank + 1) % size, (rank - 1) % size
        for step in range(size - 1):
            out, into = parts[(rank - step) % size], parts[(rank - step - 1) % size]
            mesh.exchange(call, after, bytes_of(out), before, bytes_of(into))

    def _gather(self, call, parts, mine, root):
        if self._rank != root:
            self._mesh.send(call, root, bytes_of(mine))
            return
        parts[root].copy_(mine)
        for peer in range(self._size):
            if peer != root:
                self._mesh.receive(call, peer, bytes_of(parts[peer]))

    def _scatter(self, call, there, parts, root):
        if self._rank != root:
            self._mesh.receive(call, root, bytes_of(there))
            return
        for peer in range(self._size):
            if peer != root:
                self._mesh.send(call, peer, bytes_of(parts[peer]))
        there.copy_(parts[root])

    def _alltoall(self, call, outputs, inputs):
        rank, size, mesh = self._rank, self._size, self._mesh
        outputs[rank].copy_(inputs[rank])
        for step in range(1, size):
            to, source = (rank + step) % size, (rank - step) % size
            out, into = inputs[to], outputs[source]
            mesh.exchange(
                call,
                to,
                bytes_of(out),
                source,
                bytes_of(into),
                call.header_of(out.numel()),
                call.header_of(into.numel()),
            )

    def _barrier(self, call):
        step, nothing = 1, memoryview(b"")
        while step < self._size:
            self._mesh.exchange(
                call, (self._rank + step) % self._size, nothing, (self._rank - step) % self._size, nothing
            )
            step *= 2

    @ignores("wait_all_ranks", why="all that are missing are always named", warns=False)
    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier at rank 0, which reports the missing ranks."""
        limit = self._timeout if timeout is None else as_timedelta(timeout).total_seconds()

        def body(call):
            mesh, nothing = self._mesh, memoryview(b"")
            before = mesh.timeout if mesh else 0
            try:
                mesh and mesh.set_timeout(limit if not self._rank else max(limit, before))
                for peer in range(1, self._size):
                    if not self._rank:
                        mesh.receive(call, peer, nothing)
                if self._rank:
                    mesh.send(call, 0, nothing)
                    mesh.receive(call, 0, nothing)
                for peer in range(1, self._size):
                    if not self._rank:
                        mesh.send(call, peer, nothing)
            finally:
                mesh and mesh.set_timeout(before)

        work = self._do("monitored_barrier", body, [], None)
        work.wait()
        return work

    # --- from rank to rank -------------------------------------------------------------------------------------------

    def send(self, tensors, dst, tag=0):
        (tensor,) = tensors
        self._check_usable("send")
        mine = for_reading(tensor, "send")
        what = f"send of {mine.numel()} {mine.dtype.name} from rank {self._rank} to rank {dst} with tag {tag}"
        return self._mesh.side.messages.send(what, bytes_of(mine), mine.dtype, mine.numel(), dst, tag, tensor)

    def recv(self, tensors, src, tag=0):
        (tensor,) = tensors
        self._check_usable("recv")
        there, back = for_writing(tensor, "recv")
        who = "any rank" if src is None else f"rank {src}"
        what = f"recv of {there.numel()} {there.dtype.name} by rank {self._rank} from {who} with tag {tag}"

        def landed(_):
            if back:
                with ad.no_grad():
                    back[0].copy_(back[1])

        messages = self._mesh.side.messages if self._mesh else None
        if messages is None:
            return Done(what)
        return messages.receive(what, bytes_of(there), there.dtype, there.numel(), src, tag, tensor, landed)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, None, tag)

    # --- ends --------------------------------------------------------------------------------------------------------

    def set_timeout(self, timeout):
        super().set_timeout(timeout)
        if self._mesh is not None:
            self._mesh.set_timeout(self._timeout)
            self._mesh.side.timeout = self._timeout

    def _heard(self):
        return None if self._mesh is None else self._mesh.side.failure

    def _abort_all(self, text):
        return text if self._mesh is None else self._mesh.side.abort(text)

    def _leave(self, how):
        if self._mesh is not None:
            self._mesh.close(how)
        if self._store is not None:
            self._store._close()
