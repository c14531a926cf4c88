"""Draw the main figures as bars: `python plot.py compare.json compare.png`, in an environment that has matplotlib."""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import Any

FIGURES = {
    "enqueue": "enqueue one by one, jobs/s",
    "bulk": "bulk enqueue, jobs/s",
    "drain 1": "drain, 1 worker, jobs/s",
    "drain 2": "drain, 2 workers, jobs/s",
    "cpu 1": "CPU of the worker, µs per job",
    "pickup p50": "idle pickup, median, ms",
}
OURS, OTHERS = "#0b6e4f", "#9aa5b1"


def main(source: str, target: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with open(source) as file:
        rows = json.load(file)["results"]
    figures = {figure: title for figure, title in FIGURES.items() if best(rows, figure)}
    columns = min(3, len(figures)) or 1
    lines = -(-len(figures) // columns) or 1
    plot, axes = pyplot.subplots(lines, columns, figsize=(5 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(figures) :]:
        axis.set_visible(False)
    for axis, (figure, title) in zip(axes.flat, figures.items(), strict=False):
        draw(axis, title, best(rows, figure))
    plot.tight_layout()
    plot.savefig(target, dpi=120)


def best(rows: list[dict[str, Any]], figure: str) -> dict[str, list[float]]:
    """Return the values of each system with the settings of its fastest drain."""
    drains = {
        (row["system"], json.dumps(row["settings"])): median(row["values"])
        for row in rows
        if row["figure"] == ("drain 2" if figure == "drain 2" else "drain 1")
    }
    found: dict[str, tuple[float, list[float]]] = {}
    for row in rows:
        if row["figure"] == figure:
            speed = drains.get((row["system"], json.dumps(row["settings"])), 0.0)
            found[row["system"]] = max(found.get(row["system"], (-1.0, [])), (speed, row["values"]))
    return {system: values for system, (_, values) in found.items()}


def draw(axis: Any, title: str, values: dict[str, list[float]]) -> None:
    """Draw one bar per system, with the lowest and the highest value as a line."""
    systems = [*reversed(values)]
    medians = [median(values[system]) for system in systems]
    lower = [middle - min(values[system]) for middle, system in zip(medians, systems, strict=True)]
    upper = [max(values[system]) - middle for middle, system in zip(medians, systems, strict=True)]
    colours = [OURS if system == "djqueue" else OTHERS for system in systems]
    bars = axis.barh(systems, medians, xerr=[lower, upper], color=colours, ecolor="#3e4c59", capsize=2)
    axis.bar_label(
        bars, labels=[f"{middle:,.3g}" if middle < 100 else f"{middle:,.0f}" for middle in medians], padding=4
    )
    axis.set_title(title, fontsize=10)
    axis.margins(x=0.2)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*sys.argv[1:])
