"""`Messages`: tensors from one rank to another, matched by source and tag.

A short message goes at once, and is kept by its receiver until it is asked for. A long one is offered, and sent when the receiver has
a place for it; so no rank needs memory for what others send, and ranks that send to each other first and then receive do not wait
for each other for ever. Start reading at `Messages.send`.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from itertools import count

from adjoint.distributed._call import DTYPES
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._work import Work

__all__ = ["Messages"]

#: What a frame of the side connections is.
BYE, ABORT, QUERY, STATUS, MESSAGE, OFFER, ACCEPT, DATA = range(8)
_FACTS = struct.Struct("<BxxxxxxxQ")
#: The longest message that goes without being asked for.
SHORT = 1 << 16


class _Send(Work):
    def __init__(self, what, tensor, dst, deadline):
        super().__init__(what, [tensor])
        self.dst, self.deadline = dst, deadline


class _Receive(Work):
    def __init__(self, what, source, tag, facts, into, tensor, deadline):
        super().__init__(what, [tensor])
        self.source, self.tag, self.facts, self.into, self.deadline = source, tag, facts, into, deadline
        #: Called with the rank that it came from, before a waiting thread is woken.
        self.landed = None


class Messages:
    """The messages of one group, under way on its side connections."""

    def __init__(self, side):
        self._side = side
        self._lock = threading.RLock()
        self._asked: list = []  # of _Receive: what waits for a message
        self._came: dict = {}  # by source: (tag, facts, bytes, or the number of an offer)
        self._offered: dict = {}  # by number: (work, bytes, rank)
        self._coming: dict = {}  # by (source, number): _Receive
        self._numbers = count(1)

    def send(self, what, view, dtype, count, dst, tag, tensor) -> Work:
        """Send bytes to a rank; the work is done when they may be changed."""
        work = _Send(what, tensor, dst, time.monotonic() + self._side.timeout)
        facts = _FACTS.pack(DTYPES.index(dtype), count)
        if self._refused(work):
            return work
        if len(view) <= SHORT:
            if not self._side.write(dst, MESSAGE, facts + bytes(view), tag):
                return self._gone(work, dst)
            work._finish()
            return work
        with self._lock:
            number = next(self._numbers)
            self._offered[number] = (work, view)
        if not self._side.write(dst, OFFER, facts + struct.pack("<Q", len(view)), tag, number):
            self._offered.pop(number, None)
            return self._gone(work, dst)
        self._side.wake()
        return work

    def receive(self, what, view, dtype, count, src, tag, tensor, landed=None) -> Work:
        """Receive bytes from a rank, or, with None, from the first that sends."""
        facts = _FACTS.pack(DTYPES.index(dtype), count)
        work = _Receive(what, src, tag, facts, view, tensor, time.monotonic() + self._side.timeout)
        work.landed = landed
        if self._refused(work):
            return work
        with self._lock:
            for source in sorted(self._came) if src is None else (src,):
                waiting = self._came.get(source, ())
                for i, message in enumerate(waiting):
                    if message[0] == tag:
                        del waiting[i]
                        self._match(work, source, *message[1:])
                        return work
            if src is not None and self._side.peers[src].ended:
                return self._gone(work, src)
            self._asked.append(work)
        self._side.wake()
        return work

    def _refused(self, work):
        if self._side.failure is not None:
            work._finish(DistBackendError(f"{work._what}: the group has failed before: {self._side.failure}"))
        return self._side.failure is not None

    def _gone(self, work, rank):
        work._finish(DistBackendError(self._side.abort(f"{work._what}: {self._side.why_ended(rank)}")))
        return work

    # --- the listening thread ----------------------------------------------------------------------------------------

    def arrived(self, peer, kind, tag, number, length):
        """Handle the header of an incoming frame."""
        expect = self._side._expect
        if kind == ACCEPT:
            self._send_offered(peer.rank, number)
        elif kind == DATA:
            with self._lock:
                work = self._coming.pop((peer.rank, number), None)
            if work is None or length != len(work.into):
                raise ValueError
            expect(peer, work.into, lambda _: self._land(work, peer.rank))
        elif kind == MESSAGE:
            if not _FACTS.size <= length <= _FACTS.size + SHORT:
                raise ValueError
            expect(peer, bytearray(length), lambda data: self._came_in(peer.rank, tag, data, None))
        else:
            if length != _FACTS.size + 8:
                raise ValueError
            expect(peer, bytearray(length), lambda data: self._came_in(peer.rank, tag, data, number))

    def _came_in(self, source, tag, data, number):
        facts, data = bytes(data[: _FACTS.size]), data[_FACTS.size :]
        with self._lock:
            for work in self._asked:
                if work.tag == tag and work.source in (None, source):
                    self._asked.remove(work)
                    self._match(work, source, facts, data, number)
                    return
            self._came.setdefault(source, deque()).append((tag, facts, data, number))

    def _match(self, work, source, facts, data, number):
        """Deliver a message to the receive that matches it."""
        if facts != work.facts:
            text = (
                f"ranks disagree: rank {source} sent {_said(facts)} with tag {work.tag}, rank {self._side.rank} receives "
                f"{_said(work.facts)}"
            )
            # The work is told with all others.
            self._asked.append(work)
            self._side.abort(text)
        elif number is None:
            work.into[:] = data
            self._land(work, source)
        else:
            self._coming[source, number] = work
            self._side.write(source, ACCEPT, number=number)

    def _land(self, work, source):
        work._source = source
        if work.landed is not None:
            work.landed(source)
        work._finish()

    def _send_offered(self, rank, number):
        with self._lock:
            found = self._offered.get(number)
        if found is None or found[0].dst != rank:
            raise ValueError

        def gone():
            with self._lock:
                self._offered.pop(number, None)
            found[0]._finish()

        self._side.write(rank, DATA, found[1], number=number, then=gone)

    # --- ends --------------------------------------------------------------------------------------------------------

    def _waiting(self):
        return [*self._asked, *self._coming.values(), *(work for work, _ in self._offered.values())]

    def next_deadline(self):
        """The earliest deadline of the pending operations."""
        with self._lock:
            return min((work.deadline for work in self._waiting()), default=None)

    def expire(self):
        """Fail operations past their deadline, and with them the group."""
        now = time.monotonic()
        with self._lock:
            late = [work for work in self._waiting() if work.deadline <= now]
        if late:
            self._side.abort(f"{late[0]._what}: timed out after {self._side.timeout:g} s")

    def failed(self, text):
        """Fail all pending operations after the group has failed."""
        with self._lock:
            waiting = self._waiting()
            self._asked.clear()
            self._coming.clear()
            self._offered.clear()
        for work in waiting:
            work._finish(DistBackendError(text))

    def ended(self, peer):
        """Fail the operations that wait for a rank that has exited."""
        with self._lock:
            lost = [work for work in self._asked if work.source == peer.rank]
            lost += [work for (source, _), work in self._coming.items() if source == peer.rank]
            lost += [work for work, _ in self._offered.values() if work.dst == peer.rank]
            self._asked = [work for work in self._asked if work not in lost]
            self._coming = {k: work for k, work in self._coming.items() if work not in lost}
            self._offered = {k: v for k, v in self._offered.items() if v[0] not in lost}
            alone = all(p.ended for p in self._side.peers.values())
            if alone or peer.died:  # which may be the one that would have sent
                lost += [work for work in self._asked if work.source is None]
                self._asked = [work for work in self._asked if work.source is not None]
        if lost:
            reason = self._side.abort(f"{lost[0]._what}: {peer.ended}")
        for work in lost:
            work._finish(DistBackendError(reason))


def _said(facts):
    dtype, count = _FACTS.unpack(facts)
    return f"{count} {DTYPES[dtype].name if dtype < len(DTYPES) else '?'}"
