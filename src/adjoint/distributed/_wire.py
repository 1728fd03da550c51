"""Frames of bounded length over a connection, and mutual authentication by a shared secret.

Nothing here is unpickled, and nothing is read beyond the handshake from an end that has not shown the secret. The secret is
``ADJOINT_DISTRIBUTED_SECRET`` where a launcher has set it, else that of the user, in a folder that only they can read. Start
reading at `welcome`.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
import struct
import tempfile
import threading
import time

from adjoint.distributed._errors import DistNetworkError

__all__ = ["introduce", "private_folder", "read", "receive", "secret", "send", "serve", "welcome"]

VARIABLE = "ADJOINT_DISTRIBUTED_SECRET"
#: The longest frame: values of stores are addresses, names and pickled objects of a start, not tensors.
LONGEST = 1 << 28
_GREETING = b"adjoint1"


def read(connection, count) -> bytearray:
    """Exactly `count` bytes."""
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        n = connection.recv_into(rest)
        if not n:
            raise ConnectionError("the other end has closed the connection")
        rest = rest[n:]
    return data


def send(connection, *parts) -> None:
    """Encode byte strings as a frame."""
    body = b"".join(struct.pack("<I", len(part)) + bytes(part) for part in parts)
    if len(body) > LONGEST:
        raise ValueError(f"{len(body)} bytes for a store, which takes {LONGEST} at most")
    connection.sendall(struct.pack("<Q", len(body)) + body)


def receive(connection) -> list:
    """Decode the byte strings of a frame."""
    (length,) = struct.unpack("<Q", read(connection, 8))
    if length > LONGEST:
        raise ConnectionError(f"a frame of {length} bytes: the other end does not speak this protocol")
    body, at, parts = read(connection, length), 0, []
    while at < length:
        if at + 4 > length:
            raise ConnectionError("a frame that ends in the middle of a length")
        (n,) = struct.unpack_from("<I", body, at)
        if n > length - at - 4:
            raise ConnectionError("a part that is longer than its frame")
        parts.append(bytes(body[at + 4 : at + 4 + n]))
        at += 4 + n
    return parts


def serve(listener, greet, name) -> None:
    """Call ``greet(connection)`` in a thread of its own for each connection, until the listener is closed.

    Files and threads that run out for a while, by strangers who connect, say, are waited for: who belongs here still comes in.
    """
    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if listener.fileno() < 0 or error.errno in (errno.EBADF, errno.EINVAL):  # closed, shut down
                return
            time.sleep(0.02)
            continue
        try:
            threading.Thread(target=greet, args=(connection,), name=name, daemon=True).start()
        except RuntimeError:
            connection.close()
            time.sleep(0.02)


# --- the secret ----------------------------------------------------------------------------------------------------------


def private_folder() -> str:
    """A folder that only this user can access."""
    path = os.environ.get("XDG_RUNTIME_DIR") or os.path.join(
        tempfile.gettempdir(), f"adjoint-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    )
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if hasattr(os, "getuid") and (
            found.st_uid != os.getuid()
            or stat.S_IMODE(found.st_mode) & 0o077
            or not stat.S_ISDIR(found.st_mode)
        ):
            raise PermissionError(f"{path} is open to others")
    except OSError as error:
        raise DistNetworkError(
            f"no folder for the sockets of this user's processes: {error}. Set XDG_RUNTIME_DIR to a folder of mode 700"
        ) from None
    return path


def secret() -> bytes:
    """The secret that the processes of a launcher, or else those of a user, share."""
    given = os.environ.get(VARIABLE)
    if given:
        return given.encode()
    path = os.path.join(private_folder(), "adjoint-secret")
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                if len(found := file.read()) == 64:
                    return found
        except FileNotFoundError:
            pass
        # Whole or not at all: written beside, then linked to its name; the first who does so is right.
        beside = f"{path}-{os.getpid()}"
        with open(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(os.urandom(32).hex().encode())
        try:
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(beside)
    raise DistNetworkError(f"{path} does not hold a secret of 64 characters; remove it")


def _proof(role, first, second):
    return hmac.digest(secret(), role + first + second, "sha256")


def welcome(connection, timeout=5.0) -> bool:
    """Authenticate a new connection; False if it fails."""
    connection.settimeout(timeout)
    try:
        asked = os.urandom(16)
        connection.sendall(_GREETING + asked)
        answer = bytes(read(connection, 8 + 16 + 32))
        greeting, theirs, proof = answer[:8], answer[8:24], answer[24:]
        if greeting != _GREETING or not hmac.compare_digest(proof, _proof(b"client", asked, theirs)):
            return False
        connection.sendall(_proof(b"server", theirs, asked))
    except OSError:
        return False
    connection.settimeout(None)
    return True


def introduce(connection, timeout=5.0) -> None:
    """Authenticate to the other end, and ask it to do the same.

    Raises
    ------
    PermissionError
        It does not know the secret, or is no process of Adjoint.
    ConnectionError, OSError
        It went away.
    """
    connection.settimeout(timeout)
    try:
        greeting = bytes(read(connection, 24))
    except TimeoutError:
        raise PermissionError("the peer does not greet like a store or rank of Adjoint") from None
    if greeting[:8] != _GREETING:
        raise PermissionError("the peer is not a store or rank of Adjoint")
    mine = os.urandom(16)
    connection.sendall(_GREETING + mine + _proof(b"client", greeting[8:], mine))
    try:
        theirs = bytes(read(connection, 32))
    except ConnectionError:
        raise PermissionError(
            f"it does not accept this process's secret: start all ranks as one user, or with the same {VARIABLE}"
        ) from None
    if not hmac.compare_digest(theirs, _proof(b"server", mine, greeting[8:])):
        raise PermissionError("the peer does not know the secret of this user's processes")
    connection.settimeout(None)
