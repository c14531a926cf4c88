"""Draw throughput and faults over time: `python plot.py soak.png < soak.json`, in an environment with matplotlib."""

from __future__ import annotations

import json
import sys

ENQUEUED, ENDED = "#9aa5b1", "#0b6e4f"


def main(target: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    data = json.load(sys.stdin)
    plot, (rates, faults) = pyplot.subplots(
        2, 1, sharex=True, figsize=(12, 6), gridspec_kw={"height_ratios": [3, 1.4]}, layout="constrained"
    )
    rates.plot(data["enqueued"], color=ENQUEUED, label="enqueued per second")
    rates.plot(data["ended"], color=ENDED, label="attempts ended per second")
    rates.set_ylim(bottom=0)
    rates.legend(loc="upper right", frameon=False)
    kinds = sorted({fault["kind"] for fault in data["faults"]}, reverse=True)
    for fault in data["faults"]:
        # Faults that took no time are shown as a thin bar, too.
        width = max(fault["end"] - fault["begin"], 0.3)
        faults.barh(kinds.index(fault["kind"]), width, left=fault["begin"], color="#b44d12", height=0.6)
        rates.axvline(fault["begin"], color="#b44d12", alpha=0.25, linewidth=0.8)
    faults.set_yticks(range(len(kinds)), kinds, fontsize=8)
    faults.set_xlabel("seconds")
    for axis in (rates, faults):
        axis.spines[["top", "right"]].set_visible(False)
    plot.savefig(target, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
