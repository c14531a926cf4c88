"""The figures of a comparison: several values of each, and their medians."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from .catalog import ENTRIES

# Among several settings of a system, those count with which it drains fastest: for most figures, with one worker.
BEST = {"drain 2": "drain 2", "cpu 2": "drain 2"}


class Results:
    """Values by system, figure and settings."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self.skipped: dict[str, str] = {}
        self.failures: list[str] = []

    def add(self, system: str, figure: str, value: float | None, settings: dict[str, Any] | None = None) -> None:
        if value is not None:
            self._values[system, figure, json.dumps(settings or {})].append(value)

    def values(self, system: str, figure: str) -> list[float]:
        """Return the values of a figure with the best settings."""
        found = {
            settings: values
            for (name, kind, settings), values in self._values.items()
            if (name, kind) == (system, figure)
        }
        if len(found) > 1:
            return found[self.best_settings(system, [*found], BEST.get(figure, "drain 1"))]
        return next(iter(found.values()), [])

    def best_settings(self, system: str, among: list[str], drain: str) -> str:
        return max(among, key=lambda settings: median(self._values.get((system, drain, settings)) or [0.0]))

    def median(self, system: str, figure: str) -> float | None:
        values = self.values(system, figure)
        return median(values) if values else None

    def spread(self, system: str, figure: str) -> tuple[float, float]:
        """Return the lowest and the highest value."""
        values = self.values(system, figure)
        return min(values), max(values)

    def ratio(self, figure: str, system: str, other: str, other_figure: str = "") -> float | None:
        """Return the ratio of two medians."""
        one, two = self.median(system, figure), self.median(other, other_figure or figure)
        return one / two if one is not None and two else None

    def figures(self) -> list[str]:
        return [*dict.fromkeys(figure for _, figure, _ in self._values)]

    def systems(self) -> list[str]:
        """Return the measured systems, in the order of the catalog."""
        measured = {system for system, _, _ in self._values}
        return [name for name in ENTRIES if name in measured]

    def write(self, path: Path) -> None:
        """Write all values, for later analysis."""
        rows = [
            {"system": system, "figure": figure, "settings": json.loads(settings), "values": values}
            for name in self.systems()
            for (system, figure, settings), values in self._values.items()
            if system == name
        ]
        path.write_text(json.dumps({"results": rows, "skipped": self.skipped, "failures": self.failures}, indent=1))
