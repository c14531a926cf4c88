"""`manage.py demo` as a user runs it, with a temporary folder of its own, and a visitor of its pages."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

ROOT = Path(__file__).parents[2]
# Enough for a slow machine that is busy with other tests.
PATIENCE = 120.0


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def arguments(*options: str) -> list[str]:
    return [sys.executable, "-W", "error", "manage.py", "demo", *options]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment without the settings of the tests, in which temporary files go to the folder."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_URL", "DJANGO", "DJQUEUE"))
    }
    return kept | {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"} | more


def processes_of(folder: Path) -> list[int]:
    """Return the processes that were started with this temporary folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has exited
    return found


class Demo:
    """A running demo whose output goes to a file."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        self.temporary, self.log = folder / "temporary", folder / "log"
        self.temporary.mkdir(exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                arguments(*options),
                cwd=ROOT,
                env=environment(self.temporary, **variables),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the output matches."""

        def matches() -> bool:
            return re.search(pattern, self.output()) is not None or self.process.poll() is not None

        until(matches, f"{pattern!r} was not written")
        found = re.search(pattern, self.output())
        assert found, self.output()
        return found

    def address(self) -> str:
        return self.wait_for(r"The shop +(http://\S+)")[1]

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def leftovers(self) -> tuple[list[int], list[Path]]:
        """Return the processes and the files that are left."""
        return processes_of(self.temporary), list(self.temporary.iterdir())

    def close(self) -> None:
        for pid in processes_of(self.temporary):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


class Visitor:
    """A browser without scripts."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.cookies = http.cookiejar.CookieJar()
        self.opener = build_opener(HTTPCookieProcessor(self.cookies))

    def get(self, path: str) -> str:
        """Return the page. Raise HTTPError if its status is not 200."""
        with self.opener.open(self.address + path, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def post(self, path: str, **fields: str) -> str:
        token = next(cookie.value for cookie in self.cookies if cookie.name == "csrftoken")
        data = urlencode({"csrfmiddlewaretoken": token, **fields}).encode()
        with self.opener.open(self.address + path, data, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def log_in(self) -> str:
        """Log in with the user and the password that the page shows."""
        user, password = re.findall(r"<code>(\w+)</code>", self.get("").partition("Log in as")[2])[:2]
        self.get("admin/login/")
        return self.post("admin/login/?next=/admin/djqueue/overview/", username=user, password=password)

    def stats(self) -> list[dict[str, int]]:
        return json.loads(self.get("djqueue/stats.json"))["queues"]
