"""The tables of a comparison, in Markdown."""

from __future__ import annotations

import os
import platform

from .catalog import ENTRIES
from .results import Results
from .targets import targets

DASH = "\N{EN DASH}"
MAIN = {
    "enqueue": "enqueue one by one /s",
    "bulk": "bulk /s",
    "drain 1": "drain, 1 worker /s",
    "drain 2": "drain, 2 workers /s",
    "cpu 1": "worker CPU µs/job",
    "pickup p50": "idle pickup p50 ms",
    "pickup p99": "p99 ms",
}
COSTS = {
    "statements": "statements/job",
    "commits": "commits/job",
    "wal": "WAL bytes/job",
    "server cpu": "PostgreSQL CPU µs/job",
    "memory": "memory of one worker, PSS MB",
    "idle statements": "idle statements/s",
    "idle cpu": "idle CPU s/min",
}
SCALE = {
    "depth empty": "10,000 jobs alone /s",
    "depth future": "beside future jobs /s",
    "depth finished": "beside finished jobs /s",
    "depth pending": "first of many pending /s",
    "queues 1": "1 queue /s",
    "queues 10": "10 queues /s",
    "queues 100": "100 queues /s",
    "processes 1": "1 process /s",
    "processes 2": "2 processes /s",
    "processes 4": "4 processes /s",
    "processes 8": "8 processes /s",
    "payload 100": "arguments of 100 characters /s",
    "payload 1000": "1,000 /s",
    "payload 10000": "10,000 /s",
}
OTHER = {
    "plain": "plain tasks /s",
    "async": "`async def` tasks /s",
    "mixed": "mixed load, share of the possible",
    "mixed stuck": "short jobs that waited while a thread was free, share",
    "extra claims": "extra claims with ten idle workers",
    "sqlite": "drain on SQLite /s",
}


def markdown(results: Results, server: str, load: float) -> str:
    """Return all tables that have figures, and what was skipped."""
    parts = [
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {server}. Load of the machine before the run: "
        f"{load:.1f}. Medians; in parentheses the lowest and the highest value."
    ]
    for title, figures in (("Speed", MAIN), ("Costs", COSTS), ("Growth", SCALE), ("Other workloads", OTHER)):
        if rows := table(results, figures):
            parts += [f"## {title}", rows]
    if results.skipped:
        parts.append("\n".join(f"- {name} was skipped: {reason}" for name, reason in results.skipped.items()))
    if results.failures:
        parts.append("\n".join(f"- **Failed**: {failure.splitlines()[0]}" for failure in results.failures))
    return "\n\n".join(parts) + "\n"


def table(results: Results, figures: dict[str, str]) -> str:
    """Return one row per system, with the figures that were measured; "" if there are none."""
    systems = results.systems()
    figures = {
        figure: title for figure, title in figures.items() if any(results.values(name, figure) for name in systems)
    }
    systems = [name for name in systems if any(results.values(name, figure) for figure in figures)]
    if not figures:
        return ""
    lines = ["| | " + " | ".join(figures.values()) + " |", "|---|" + "---|" * len(figures)]
    for name in systems:
        cells = " | ".join(cell(results, name, figure) for figure in figures)
        lines.append(f"| {ENTRIES[name].title} | {cells} |")
    return "\n".join(lines)


def cell(results: Results, system: str, figure: str) -> str:
    value = results.median(system, figure)
    if value is None:
        return DASH
    if len(results.values(system, figure)) == 1:
        return number(value)
    low, high = results.spread(system, figure)
    return f"{number(value)} ({number(low)}{DASH}{number(high)})"


def number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if value >= 100:
        digits = 3 - len(str(int(value)))
        return f"{round(value, min(0, digits)):,.0f}"
    return f"{value:.3g}"


def target_table(results: Results) -> str:
    """Return the targets as a table."""
    lines = ["| ratio | value | target | |", "|---|---|---|---|"]
    for target in targets(results):
        value = "not measured" if target.value is None else f"{target.value:.2f}"
        verdict = {True: "reached", False: "**missed**", None: ""}[target.reached]
        lines.append(f"| {target.text} | {value} | {'≥' if target.at_least else '≤'} {target.bound:g} | {verdict} |")
    return "\n".join(lines)
