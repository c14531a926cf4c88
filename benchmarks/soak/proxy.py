"""The proxy of the tests, for a server that is restarted."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests import proxy


class Proxy(proxy.Proxy):
    """A proxy that hangs up on new clients while the server is away, and forgets connections that are closed."""

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self.server)
                except OSError:
                    client.close()
                    server.close()
                    continue
                self.pairs = [pair for pair in self.pairs if pair[0].fileno() >= 0]
                self.pairs.append((client, [False]))
                thread = threading.Thread(target=self._serve, args=[client, server, [False]], daemon=True)
                thread.start()
