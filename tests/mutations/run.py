"""Copy the repository, break the copy, run tests in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import forked
from .variant import Variant

ROOT = Path(__file__).resolve().parents[2]
ALIASES = (
    "postgresql",
    "postgresql_pool",
    "postgresql_bound",
    "postgresql_repeatable",
    "postgresql_pgbouncer",
    "sqlite",
    "mysql",
)
MYSQL_URL = "DJQUEUE_TEST_MYSQL_URL"
SECONDS = 240.0  # of one run: a test waits at most a minute for what does not happen
SECONDS_OF_ALL = 1800.0

# The results of a variant. All but the first make the script fail.
CAUGHT, SURVIVED, HUNG, OUT_OF_DATE, SKIPPED = "caught", "SURVIVED", "HUNG", "OUT OF DATE", "skipped"

FAILED = 1  # exit code of pytest
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", re.MULTILINE)
_TIMEOUT = "Failed: Timeout (>"  # of pytest-timeout


class Copy:
    """A copy of the files that git does not ignore. The working tree stays as it is."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        (folder / "scratch").mkdir()
        self.environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "PYTHONPATH": str(folder),  # for the processes that tests start
            "DJQUEUE_TEST_SCRATCH": str(folder / "scratch"),
        }
        self.mysql_url = self.environment.pop(MYSQL_URL, None)
        self.changes = int(time.time())
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():  # else it was deleted, and the deletion is not committed
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)

    def imported_from(self) -> Path:
        """Return the file of djqueue that tests in the copy import."""
        found = subprocess.run(
            [sys.executable, "-c", "import djqueue; print(djqueue.__file__)"],
            cwd=self.folder,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return Path(found.stdout.strip())

    def can_test_on(self, databases: Iterable[str]) -> bool:
        return "mysql" not in databases or self.mysql_url is not None

    def try_variant(self, variant: Variant) -> tuple[str, str]:
        """Break the file, run the tests, restore the file; return the result, and the test that saw it or why not."""
        if not self.can_test_on(variant.databases):
            return SKIPPED, f"set {MYSQL_URL} to a MariaDB"
        path = self.folder / "djqueue" / variant.file
        text = path.read_text()
        self._write(path, text.replace(variant.old, variant.new))
        try:
            return self.test(variant.node_ids, variant.databases)
        finally:
            self._write(path, text)

    def test(self, node_ids: Sequence[str], databases: Sequence[str], seconds: float = SECONDS) -> tuple[str, str]:
        """Run tests; return the result, and the first test that failed or what is wrong."""
        environment = self.environment | {
            "DJQUEUE_TEST_WITHOUT": " ".join(alias for alias in ALIASES if alias not in databases)
        }
        if "mysql" in databases and self.mysql_url is not None:
            environment[MYSQL_URL] = self.mysql_url
        output, code = forked.pytest_in(
            self.folder, ["-x", "-q", "-p", "no:cacheprovider", *node_ids], environment, seconds
        )
        found = _FAILURE.search(output)
        test = found[1] if found else ""
        if code is None or _TIMEOUT in output:
            return HUNG, test
        if code == 0:
            return (OUT_OF_DATE, "all tests are skipped") if " passed" not in output else (SURVIVED, "")
        if code == FAILED and found:
            return CAUGHT, test
        return OUT_OF_DATE, output.strip()[-1000:]  # not a failure of a test: a name or the syntax is wrong

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        self.changes += 2  # Python compiles a file again if its size or its time, in seconds, has changed
        os.utime(path, (self.changes, self.changes))


def problems_of(variants: Sequence[Variant]) -> list[str]:
    """Return what is out of date in the catalog."""
    found = []
    names = [variant.name for variant in variants]
    found += [f"{name}: the name is used twice" for name in sorted(set(names)) if names.count(name) > 1]
    for variant in variants:
        path = ROOT / "djqueue" / variant.file
        times = path.read_text().count(variant.old) if path.is_file() else 0
        if times != 1:
            found.append(f"{variant.name}: its text occurs {times} times in djqueue/{variant.file}")
        for test in variant.node_ids:
            if not (ROOT / test.partition("::")[0]).is_file():
                found.append(f"{variant.name}: there is no {test}")
    return found


def by_databases(variants: Sequence[Variant]) -> dict[tuple[str, ...], list[str]]:
    """Return the tests of all variants, once each, by the databases on which they run."""
    tests: dict[tuple[str, ...], dict[str, None]] = {}
    for variant in variants:
        tests.setdefault(variant.databases, {}).update(dict.fromkeys(variant.node_ids))
    return {databases: list(node_ids) for databases, node_ids in tests.items()}
