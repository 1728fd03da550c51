"""`Side`: the connections beside those of collectives, and the thread that listens to them.

A frame is a header (kind, tag, number, length) and as many bytes. By it a rank says that it leaves (BYE) or that the group has
failed (ABORT), asks what others are doing (QUERY, STATUS), and sends messages from rank to rank (`_messages`). A rank that exits without
a word is known by the closed connection. Start reading at `Side._listen`.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections import deque

from adjoint._types import Callable
from adjoint.distributed._messages import (
    ABORT,
    ACCEPT,
    BYE,
    DATA,
    MESSAGE,
    OFFER,
    QUERY,
    STATUS,
    Messages,
)

__all__ = ["Side"]

LAYOUT = struct.Struct("<BxxxiQQ")
_TEXT = 1 << 16


class Peer:
    """The side connection to another rank."""

    def __init__(self, rank, connection):
        self.rank, self.connection = rank, connection
        self.ended: str | None = None
        self.died = False
        #: What is being read: a buffer, how much of it is there, and what is called with it.
        self.into, self.have, self.then = memoryview(bytearray(LAYOUT.size)), 0, None
        #: What is still to be written: [buffer, what is called when it is gone].
        self.outgoing: deque = deque()
        self.lock = threading.Lock()


class Side:
    """The side connections of a group: point-to-point messages, status and failures."""

    def __init__(self, rank, connections, collectives, timeout, doing):
        self.rank, self.timeout, self._doing = rank, timeout, doing
        #: Why the group has failed: as soon as this rank knows, and when it has told all others.
        self._reason: str | None = None
        self.failure: str | None = None
        self.peers = {peer: Peer(peer, connection) for peer, connection in connections.items()}
        self._collectives = collectives
        #: What reasons end with: whose ranks they speak of.
        self.whose: Callable[[], str] = str
        self._answers: dict = {}
        self._changed = threading.Condition()
        self._closed = False
        self._left = False
        self.messages = Messages(self)
        self._selector = selectors.DefaultSelector()
        self._waking, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._waking, selectors.EVENT_READ, None)
        for peer in self.peers.values():
            peer.connection.setblocking(False)
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)
        self._thread = threading.Thread(target=self._listen, name="adjoint-group", daemon=True)
        self._thread.start()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _listen(self):
        try:
            while not self._closed:
                for peer in self.peers.values():
                    self._watch(peer)
                deadline = self.messages.next_deadline()
                limit = None if deadline is None else max(0.0, deadline - time.monotonic())
                for key, events in self._selector.select(limit):
                    if key.data is None:
                        os.read(self._waking, 4096)
                        continue
                    if events & selectors.EVENT_WRITE:
                        self._write(key.data)
                    if events & selectors.EVENT_READ:
                        self._read(key.data)
                self.messages.expire()
        except BaseException as error:  # noqa: BLE001 - no thread listens any more, so that waiting threads would never return
            self.abort(f"the thread that listens at rank {self.rank} met {type(error).__name__}: {error}")
        finally:
            self._selector.close()
            with self._changed:
                os.close(self._wake)
                os.close(self._waking)
                self._wake = -1
            for peer in self.peers.values():
                peer.connection.close()

    def _watch(self, peer):
        if peer.ended is not None and peer.connection.fileno() not in self._selector.get_map():
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
        if self._selector.get_key(peer.connection).events != events:
            self._selector.modify(peer.connection, events, peer)

    def wake(self):
        """Wake the thread."""
        with self._changed:
            if self._wake >= 0:
                try:
                    os.write(self._wake, b"w")
                except BlockingIOError:
                    pass  # it has been told often enough

    def _read(self, peer):
        try:
            for _ in range(64):
                n = peer.connection.recv_into(peer.into[peer.have :]) if len(peer.into) else 0
                if not n and len(peer.into):
                    raise ConnectionError
                peer.have += n
                if peer.have == len(peer.into):
                    self._complete(peer)
        except BlockingIOError:
            pass
        except OSError:
            self._end(peer, None)
        except ValueError:
            self._end(peer, self.abort(f"rank {peer.rank} sent what is no message"))

    def _complete(self, peer):
        """Handle a complete header or payload."""
        then, done = peer.then, peer.into
        peer.into, peer.have, peer.then = memoryview(bytearray(LAYOUT.size)), 0, None
        if then is not None:
            then(done)
            return
        kind, tag, number, length = LAYOUT.unpack(done)
        if kind in (BYE, ABORT, STATUS):
            if length > _TEXT:
                raise ValueError
            then = {BYE: self._bye, ABORT: self._aborted, STATUS: self._status}[kind]
            self._expect(
                peer, bytearray(length), lambda text: then(peer, bytes(text).decode(errors="replace"))
            )
        elif kind == QUERY:
            self.write(peer.rank, STATUS, self._doing().encode()[:_TEXT])
        elif kind in (MESSAGE, OFFER, ACCEPT, DATA):
            self.messages.arrived(peer, kind, tag, number, length)
        else:
            raise ValueError

    def _expect(self, peer, buffer, then):
        """Read into a buffer, then call; at once if the buffer is empty."""
        if len(buffer):
            peer.into, peer.have, peer.then = memoryview(buffer), 0, then
        else:
            then(memoryview(buffer))

    # --- what is said ------------------------------------------------------------------------------------------------

    def write(self, rank, kind, payload=b"", tag=0, number=0, then=None):
        """Send a frame without blocking; `then` is called when it has been sent."""
        peer = self.peers[rank]
        with peer.lock:
            if peer.ended is not None:
                return False
            first = not peer.outgoing
            peer.outgoing.append([memoryview(LAYOUT.pack(kind, tag, number, len(payload))), None])
            if len(payload):
                peer.outgoing.append([memoryview(payload), None])
            peer.outgoing[-1][1] = then
        if first:
            self._write(peer)
        if peer.outgoing:
            self.wake()
        return True

    def _write(self, peer):
        done = []
        with peer.lock:
            try:
                while peer.outgoing:
                    parts = [part for part, _ in list(peer.outgoing)[:16]]
                    n = peer.connection.sendmsg(parts)
                    while peer.outgoing and n >= len(peer.outgoing[0][0]):
                        part, then = peer.outgoing.popleft()
                        n -= len(part)
                        if then is not None:
                            done.append(then)
                    if n:
                        peer.outgoing[0][0] = peer.outgoing[0][0][n:]
            except BlockingIOError:
                pass
            except OSError:
                peer.outgoing.clear()  # reading will tell
        for then in done:
            then()

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _end(self, peer, why):
        """Handle the end of the connection to a rank."""
        with peer.lock:
            if peer.connection.fileno() in self._selector.get_map():
                self._selector.unregister(peer.connection)
            peer.outgoing.clear()
        with self._changed:
            if peer.ended is None:
                peer.died = why is None
                peer.ended = why or (
                    f"rank {peer.rank} has ended without a word (killed, stopped by the system for lack of memory, or by _exit)"
                )
            self._changed.notify_all()
        self.messages.ended(peer)

    def _bye(self, peer, text):
        self._end(peer, f"rank {peer.rank} {text}")

    def _status(self, peer, text):
        with self._changed:
            self._answers[peer.rank] = text
            self._changed.notify_all()

    def _aborted(self, peer, text):
        # Passed on: else this rank may be gone before another hears why from the first, and be taken for the cause.
        self.abort(text, heard=True)

    def _fail(self, text):
        with self._changed:
            self.failure = text
            self._changed.notify_all()
        for connection in self._collectives:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.messages.failed(self.failure)
        return self.failure

    # --- what the group asks -----------------------------------------------------------------------------------------

    def abort(self, text, heard=False) -> str:
        """Fail the group on all ranks; returns the first reason."""
        with self._changed:
            if self._reason is not None:
                return self._reason
            self._reason = text = text if heard else text + self.whose()
        for rank in self.peers:
            self.write(rank, ABORT, text.encode()[:_TEXT])
        return self._fail(text)

    def why_ended(self, rank) -> str:
        """Why a connection has closed: the reason that the rank gave, or that it gave none."""
        peer = self.peers[rank]
        with self._changed:
            self._changed.wait_for(lambda: peer.ended is not None or self.failure is not None, 2.0)
        return peer.ended or f"the connection to rank {rank} is closed"

    def what_others_do(self) -> str:
        """The status that each rank reports, and the ranks that report none."""
        with self._changed:
            self._answers.clear()
        for rank in self.peers:
            self.write(rank, QUERY)
        with self._changed:
            self._changed.wait_for(
                lambda: all(r in self._answers or p.ended for r, p in self.peers.items()),
                min(1.0, self.timeout),
            )
            said = {
                r: self._answers.get(r) or p.ended and f"rank {r} has ended" or f"rank {r} does not answer"
                for r, p in self.peers.items()
            }
        return "; ".join(said[rank] for rank in sorted(said))

    def leave(self, how) -> None:
        """Announce that this rank leaves, and close."""
        with self._changed:
            if self._left:
                return
            self._left = True
        for rank in self.peers:
            self.write(rank, BYE, how.encode()[:_TEXT])
        end = time.monotonic() + min(2.0, self.timeout)
        while any(p.outgoing for p in self.peers.values() if p.ended is None) and time.monotonic() < end:
            time.sleep(0.001)
        self.messages.failed(f"this rank {how} before the message was through")
        self._closed = True
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)
