"""A proxy before a PostgreSQL that can stop answering without closing a connection, and lose the answer to a commit."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

# The end of an answer of the server: it is ready for the next statement, outside a transaction or in one, or for data.
READY, READY_IN_TRANSACTION, READY_FOR_DATA = b"ZI", b"ZT", b"G\0"


class Proxy:
    """A proxy that listens at `url`. Connections in `swallowed` were accepted, and get no further answers."""

    def __init__(self, folder: Path) -> None:
        parts = urlsplit(os.environ["DATABASE_URL"])
        [server] = parse_qs(parts.query)["host"]
        self.server = f"{server}/.s.PGSQL.5432"
        self.folder = str(folder)
        self.url = urlunsplit(parts._replace(query=f"host={folder}"))
        self.swallow_new = False
        self.swallow_statements = False  # on new connections: these are made, but the first statement gets no answer
        self.pids: set[int] = set()  # of the processes that have connected
        self.pairs: list[tuple[socket.socket, list[bool]]] = []
        self.to_lose: str | None = None
        self.lost = 0  # answers
        self.lock = threading.Lock()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(f"{folder}/.s.PGSQL.5432")
        self.listening.listen(100)
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def swallow(self, *, new: bool) -> None:
        """Answer on no connection that is open now; nor on later ones, if `new`."""
        self.swallow_new = new
        for _, swallowed in self.pairs:
            swallowed[0] = True

    def cut(self) -> None:
        """Hang up all connections."""
        for client, _ in self.pairs:
            with suppress(OSError):  # it is closed already
                client.shutdown(socket.SHUT_RDWR)

    def lose_answer(self, statement: str) -> None:
        """Hang up, once, when the next statement that contains this text has been committed, instead of answering.

        In a transaction, the answer to its COMMIT is the one that is lost.
        """
        with self.lock:
            self.to_lose = statement

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)  # close() alone would not wake the thread
        self.listening.close()
        for thread in self.threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.pids.add(peer(client))
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server)
                swallowed = [self.swallow_new]
                self.pairs.append((client, swallowed))
                thread = threading.Thread(target=self._serve, args=[client, server, swallowed], daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket, server: socket.socket, swallowed: list[bool]) -> None:
        """Pass bytes on in both directions until one side hangs up."""
        with client, server, suppress(OSError):
            other = {client: server, server: client}
            greeted = losing = False
            sent, held = Statements(), b""
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client:
                        if self.swallow_statements and greeted:
                            swallowed[0] = True
                        losing = self._is_to_be_lost(list(sent.read(data))) or losing
                    elif losing:
                        held += data
                        end = last_message(held)
                        if end == READY:  # it is committed
                            self.lost += 1
                            return
                        if end not in (READY_IN_TRANSACTION, READY_FOR_DATA):
                            continue
                        data, held = held, b""
                    greeted = True
                    if not swallowed[0]:
                        other[source].sendall(data)

    def _is_to_be_lost(self, statements: list[str]) -> bool:
        with self.lock:
            if self.to_lose is None or not any(self.to_lose in statement for statement in statements):
                return False
            self.to_lose = None
            return True


class Statements:
    """Reads the statements that a client sends, prepared ones too."""

    def __init__(self) -> None:
        self.buffer = b""
        self.greeted = False
        self.prepared: dict[bytes, str] = {}

    def read(self, data: bytes) -> Iterator[str]:
        self.buffer += data
        while True:
            kind = 1 if self.greeted else 0  # the first message has no byte for its kind
            if len(self.buffer) < kind + 4:
                return
            end = kind + struct.unpack_from(">I", self.buffer, kind)[0]
            if len(self.buffer) < end:
                return
            message, self.buffer = self.buffer[:end], self.buffer[end:]
            if self.greeted:
                yield from self._statement(message[:1], message[5:])
            self.greeted = True

    def _statement(self, kind: bytes, body: bytes) -> Iterator[str]:
        if kind == b"Q":  # a simple query
            yield body.partition(b"\0")[0].decode(errors="replace")
        elif kind == b"P":  # parse
            name, text = body.split(b"\0")[:2]
            self.prepared[name] = text.decode(errors="replace")
        elif kind == b"B":  # bind: it will be executed
            yield self.prepared.get(body.split(b"\0")[1], "")


def last_message(data: bytes) -> bytes | None:
    """Return the kind and the first byte of the last message of a server; None if it is not complete."""
    begin = end = 0
    while len(data) >= end + 5:
        begin, end = end, end + 1 + struct.unpack_from(">I", data, end + 1)[0]
    return data[begin : begin + 1] + data[begin + 5 : begin + 6] if end == len(data) else None


def peer(client: socket.socket) -> int:
    """Return the id of the process at the other end of a Unix socket."""
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])
