"""One broken variant of a file."""

from __future__ import annotations

from dataclasses import dataclass

SQLITE = ("sqlite",)
MYSQL = ("mysql",)


@dataclass(frozen=True)
class Variant:
    """A fact that is wrong in this variant, the change that makes it so, and the tests that should see it."""

    name: str
    file: str  # below djqueue/
    old: str  # occurs exactly once in the file
    new: str
    tests: str  # node ids below tests/, separated by spaces; the fewest and quickest that see it
    databases: tuple[str, ...] = ("postgresql",)  # aliases of tests/settings.py

    @property
    def node_ids(self) -> list[str]:
        return [f"tests/{test}" for test in self.tests.split()]


def permission(name: str, file: str, check: str, tests: str) -> Variant:
    """A permission that everybody has."""
    return Variant(name, file, f"return {check}", "return True", tests)
