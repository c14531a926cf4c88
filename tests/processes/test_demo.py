"""`make demo` from the first line to the last: pages, login, traffic, Ctrl-C, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.processes.demo import PATIENCE, ROOT, Demo, Visitor, arguments, environment, processes_of, until
from tests.processes.terminal import Terminal

Start = Callable[..., Demo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Demo] = []

    def start(*options: str, **variables: str) -> Demo:
        started.append(Demo(tmp_path, *options, **variables))
        return started[-1]

    yield start
    for demo in started:
        demo.close()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another server uses."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def files_of_the_project() -> set[Path]:
    return {path for path in (ROOT / "example_project").rglob("*") if "__pycache__" not in path.parts}


def test_a_user_sees_moving_numbers_and_stops_the_demo(start, taken):
    before = files_of_the_project()
    demo = start("--port", str(taken))
    visitor = Visitor(demo.address())
    demo.wait_for(f"Port {taken} is taken")
    for path in ("", "orders/", "static/shop/shop.css", "static/admin/css/base.css"):
        assert visitor.get(path)
    assert "Needs attention" in visitor.log_in()
    for path in ("office/", "office/export/", "admin/djqueue/job/", "admin/djqueue/schedule/"):
        assert visitor.get(path)

    def finished() -> int:
        return sum(queue["done"] + queue["dead"] for queue in visitor.stats())

    seen = finished()
    until(lambda: finished() > seen + 5, "no jobs are run")
    demo.wait_for(r"traffic +\w+.* orders ")
    demo.wait_for(r"worker +✔ done +charge ")
    demo.wait_for(r"web +GET /orders/ 200")
    assert "/static/" not in demo.output()
    assert "\x1b" not in demo.output()
    assert demo.stop(signal.SIGINT) == 0, demo.output()
    assert demo.output().endswith("demo    Stopped.\n")
    assert "Traceback" not in demo.output()
    until(lambda: demo.leftovers() == ([], []), "something is left")
    assert files_of_the_project() == before


def test_an_order_of_a_visitor_is_paid_and_invoiced(start):
    demo = start("--no-traffic")
    visitor = Visitor(demo.address())
    visitor.get("")
    page = visitor.post("", product="1", quantity="2", email="ada@example.com", card="slow")
    assert "Payment: waiting" in page
    order = page.partition("<title>Order ")[2].partition("<")[0]
    until(lambda: "Open the invoice" in visitor.get(f"orders/{order}/"), "there is no invoice")
    assert "Attempt 2: The bank did not answer" in visitor.get(f"orders/{order}/")
    assert "traffic" not in demo.output()
    assert demo.stop(signal.SIGTERM) == 0
    until(lambda: demo.leftovers() == ([], []), "something is left")


def test_the_demo_stops_while_it_is_set_up(start):
    demo = start()
    demo.wait_for("Creating tables")
    assert demo.stop() == 0
    assert "Traceback" not in demo.output()
    until(lambda: demo.leftovers() == ([], []), "something is left")


def test_the_demo_exits_with_1_if_a_process_dies(start):
    demo = start("--no-traffic")
    demo.address()
    demo.wait_for("djqueue worker ")
    [worker] = [pid for pid in processes_of(demo.temporary) if is_worker(pid, demo.process.pid)]
    os.kill(worker, signal.SIGKILL)
    assert demo.process.wait(PATIENCE) == 1
    assert "The process “worker” has exited with code -9." in demo.output()
    until(lambda: demo.leftovers() == ([], []), "something is left")


def is_worker(pid: int, parent: int) -> bool:
    """Return whether this is the supervisor of the worker, the child of the demo that runs `runworker`."""
    folder = Path(f"/proc/{pid}")
    child = f"PPid:\t{parent}\n" in (folder / "status").read_text()
    return child and b"\0runworker\0" in (folder / "cmdline").read_bytes()


def test_a_killed_demo_leaves_no_process(start):
    demo = start("--no-traffic")
    demo.wait_for("djqueue worker ")
    demo.stop(signal.SIGKILL)
    until(lambda: not processes_of(demo.temporary), "processes are left")


def test_a_database_that_cannot_be_reached_is_named(start):
    demo = start(DATABASE_URL="postgres://nobody@127.0.0.1:1/nothing")
    assert demo.process.wait(PATIENCE) == 1
    assert "The database cannot be used: " in demo.output()
    assert "Traceback" not in demo.output()
    until(lambda: demo.leftovers() == ([], []), "something is left")


def test_the_demo_runs_twice_on_a_postgresql(start):
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS demo_of_the_shop")
        connection.execute("CREATE DATABASE demo_of_the_shop")
        url = urlsplit(server)._replace(path="/demo_of_the_shop").geturl()
        for _ in range(2):
            demo = start(DATABASE_URL=url)
            assert "Needs attention" in (visitor := Visitor(demo.address())).log_in()
            demo.wait_for("PostgreSQL database “demo_of_the_shop”; they stay there.")
            demo.wait_for(r"✔ done +charge ")
            assert "Assam" in visitor.get("")
            assert demo.stop() == 0
            until(lambda: demo.leftovers() == ([], []), "something is left")
        connection.execute("DROP DATABASE demo_of_the_shop")


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}])
def test_control_c_on_a_terminal(tmp_path, variables):
    colours = not variables
    environ = environment(tmp_path, TERM="xterm")
    environ.pop("NO_COLOR", None)
    # Command is what the terminal starts; it looks for manage.py from here.
    command = SimpleNamespace(argv=arguments("--no-traffic"), env=environ | variables)
    terminal = Terminal(command, cwd=ROOT)
    try:
        terminal.wait_for("Ctrl-C stops everything.", PATIENCE)
        assert ("\x1b[1m" in terminal.written) == colours
        terminal.type("\x03")
        assert terminal.wait(PATIENCE) == 0
        assert "Traceback" not in terminal.written
        until(lambda: (processes_of(tmp_path), list(tmp_path.iterdir())) == ([], []), "something is left")
    finally:
        terminal.close()
