"""The shop with a web server, a worker and traffic, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

from example_project.demo import login
from example_project.demo.lines import WorkerLines
from example_project.demo.management.commands.demo_web import LISTENING
from example_project.demo.ports import HOST
from example_project.demo.processes import Child, stop
from example_project.demo.screen import BAD, DIM, Screen, has_colours

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after which the address is written again, because the first time has scrolled away.
REMIND_EVERY = 60.0


class Command(BaseCommand):
    help = "Run the shop with a web server, a worker and traffic, until Ctrl-C."
    requires_system_checks = []  # the processes that it starts check what they need

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8000, help="the port, or the first to try (default: %(default)s)"
        )
        parser.add_argument("--no-traffic", action="store_true", help="place no orders by itself")
        parser.add_argument("--seconds", type=float, metavar="N", help="stop after N seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        colours = options["force_color"] or (not options["no_color"] and has_colours(sys.stdout, os.environ))
        with tempfile.TemporaryDirectory(prefix="djqueue-demo-") as folder:
            demo = Demo(Screen(sys.stdout, colours=colours), Path(folder), options["port"])
            for number in STOP_SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as it is under nohup
                    signal.signal(number, demo.on_signal)
            code = demo.run(traffic=not options["no_traffic"], seconds=options["seconds"])
        sys.exit(code)


class Demo:
    def __init__(self, screen: Screen, folder: Path, port: int) -> None:
        self.screen, self.wanted = screen, port
        self.port, self.address = 0, ""  # of the web server, when it listens
        self.children: list[Child] = []
        self.stopping, self.hurry = threading.Event(), threading.Event()
        self.environment = {
            "DATABASE_URL": f"sqlite:///{folder / 'demo.sqlite3'}",
            **os.environ,
            "DEBUG": "1",
            login.VARIABLE: "1",
            "MAIL_FOLDER": str(folder / "mails"),
            "PYTHONUNBUFFERED": "1",
            "SHUTDOWN_GRACE": "2",
        }

    def on_signal(self, *_: object) -> None:
        if self.stopping.is_set():
            self.hurry.set()
        self.stopping.set()

    def run(self, *, traffic: bool, seconds: float | None) -> int:
        """Return the exit code."""
        code = 1
        try:
            if self.set_up() and self.start(traffic=traffic):
                code = self.watch(seconds)
        finally:
            self.screen.line("demo", "Stopping …")
            stop(self.children, self.hurry)
            self.screen.line("demo", "Stopped.")
        return 0 if self.stopping.is_set() else code

    def set_up(self) -> bool:
        """Create tables and data; return whether that has succeeded."""
        self.say_where()
        child = self.child("setup", ["demo_setup"])
        while not child.has_exited():
            if self.stopping.wait(0.05):
                return False
        self.children.remove(child)
        child.close()
        if child.process.returncode:
            self.screen.line("demo", "The database could not be set up.", BAD)
        return child.process.returncode == 0

    def say_where(self) -> None:
        if "DATABASE_URL" in os.environ:
            where = f"{connection.display_name} database “{connection.settings_dict['NAME']}”"
            self.screen.line(
                "demo", f"Creating tables, data and the user {login.USER} in the {where}; they stay there."
            )
        else:
            self.screen.line("demo", "Creating tables and data in a temporary SQLite database …")

    def start(self, *, traffic: bool) -> bool:
        """Start the processes; return whether that has succeeded."""
        self.child("web", ["demo_web", str(self.wanted)], self.read_web)
        while not self.port:
            if self.stopping.wait(0.05) or not self.all_alive():
                return False
        self.address = f"http://{HOST}:{self.port}/"
        self.environment["PARTNER_URL"] = f"{self.address}partner/"
        self.screen.box(self.welcome())
        self.child("worker", ["runworker", "--name", "demo", "--threads", "8"], WorkerLines().read)
        if traffic:
            self.child("traffic", ["demo_traffic"])
        return True

    def read_web(self, line: str) -> list[tuple[str, str]]:
        if line.startswith(LISTENING):
            self.port = int(line.removeprefix(LISTENING))
            return []
        return [(line, "")]

    def child(self, name: str, command: list[str], read: Callable[[str], list[tuple[str, str]]] | None = None) -> Child:
        def on_line(line: str) -> None:
            for text, colour in read(line) if read else [(line, "")]:
                self.screen.line(name, text, colour)

        child = Child(name, command, self.environment, on_line)
        self.children.append(child)
        return child

    def welcome(self) -> list[str]:
        taken = [] if self.port == self.wanted else [f"Port {self.wanted} is taken, so this is port {self.port}.", ""]
        return [
            f"The shop    {self.address}",
            f"The admin   {self.address}admin/djqueue/overview/",
            f"            user {login.USER}, password {login.PASSWORD}",
            "",
            *taken,
            "Ctrl-C stops everything.",
        ]

    def watch(self, seconds: float | None) -> int:
        """Wait until it is time to stop; return 1 if a process has exited before."""
        begin = reminded = time.monotonic()
        while not self.stopping.wait(0.1) and not self.screen.closed.is_set():
            now = time.monotonic()
            if not self.all_alive():
                return 1
            if seconds is not None and now - begin > seconds:
                break
            if now - reminded > REMIND_EVERY:
                reminded = now
                self.screen.line(
                    "demo", f"{self.address} · user {login.USER}, password {login.PASSWORD} · Ctrl-C stops", DIM
                )
        return 0

    def all_alive(self) -> bool:
        for child in self.children:
            if child.has_exited():
                child.close()
                code = child.process.returncode
                self.screen.line("demo", f"The process “{child.name}” has exited with code {code}.", BAD)
                return False
        return True
