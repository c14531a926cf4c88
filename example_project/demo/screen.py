"""What the demo writes to the terminal: the lines of all processes, each with its name in front."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TextIO

COLOURS = {"demo": "1", "web": "36", "worker": "35", "traffic": "34", "setup": "2"}
GOOD, BAD, WARNING, DIM, BOLD = "32", "31", "33", "2", "1"


def has_colours(out: TextIO, environment: Mapping[str, str]) -> bool:
    """Colours are for terminals, unless the user has asked for none (no-color.org)."""
    return out.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class Screen:
    """Lines from several threads. When the reader has gone, `closed` is set, and nothing more is written."""

    def __init__(self, out: TextIO, *, colours: bool) -> None:
        self.out, self.colours = out, colours
        self.lock = threading.Lock()
        self.closed = threading.Event()

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and text else text

    def line(self, name: str, text: str, colour: str = "") -> None:
        text = self.paint(text, colour) if colour else text
        self.write(f"{self.paint(f'{name:<8}', COLOURS[name])}{text}\n")

    def box(self, lines: list[str]) -> None:
        width = max(map(len, lines))
        rows = [f"│ {self.paint(f'{line:<{width}}', BOLD)} │" for line in lines]
        self.write("\n".join(["", f"╭{'─' * (width + 2)}╮", *rows, f"╰{'─' * (width + 2)}╯", "", ""]))

    def write(self, text: str) -> None:
        with self.lock:
            if self.closed.is_set():
                return
            try:
                self.out.write(text)
                self.out.flush()
            except UnicodeEncodeError:  # a terminal without UTF-8
                encoding = self.out.encoding or "ascii"
                self.out.write(text.encode(encoding, "replace").decode(encoding))
                self.out.flush()
            except OSError:  # as after `make demo | head`
                self.closed.set()
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.out.fileno())  # for what is left in the buffer, which Python writes at the exit
                os.close(nowhere)
