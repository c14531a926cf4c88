"""The report: counts, faults and violations as text, and the throughput for the plot."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.compare import environments

from .audit import beyond_limits, second_starts
from .evidence import Evidence

EXAMPLES = 5
PLOT = Path(__file__).with_name("plot.py")
REQUIREMENTS = Path(environments.__file__).with_name("plot.txt")


def show(evidence: Evidence, found: dict[str, list[str]]) -> None:
    stored = len(evidence.uncertain & evidence.rows.keys())
    table = {
        "acknowledged": evidence.kinds.total(),
        "duplicates of a dedup key": evidence.duplicates,
        "enqueue raised an error, stored": stored,
        "enqueue raised an error, not stored": len(evidence.uncertain) - stored,
        "done": evidence.count("done"),
        "dead": evidence.count("dead"),
        "cancelled": evidence.count("cancelled"),
        "live": evidence.live,
        "starts by the ledger": sum(map(len, evidence.runs.values())),
        **{f"started again, {reason}": count for reason, count in sorted(second_starts(evidence).items())},
        "runs beyond a limit": sum(1 for _ in beyond_limits(evidence)),
        "requeued": evidence.requeued,
        "cancels requested": len(evidence.asked_to_cancel),
        "errors of producers and operator": len(evidence.raised),
    }
    print()
    for name, count in table.items():
        print(f"{name:<44}{count:>10,}")
    show_counts("jobs acknowledged", evidence.kinds)
    show_counts("errors", Counter(f"{one.error} ({' '.join(one.text.split())[:70]})" for one in evidence.raised))
    show_counts("faults", Counter(fault.kind for fault in evidence.faults))
    print()
    for rule, violations in found.items():
        print(f"{rule:<44}{len(violations) or 'ok':>10}")
        for violation in violations[:EXAMPLES]:
            print(f"    {violation}")
        if len(violations) > EXAMPLES:
            print(f"    and {len(violations) - EXAMPLES} more")


def show_counts(title: str, counts: Counter[str]) -> None:
    print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))


def draw(evidence: Evidence, begin: float, target: Path) -> None:
    """Draw the throughput over time in the environment of `compare` that has matplotlib."""
    try:
        python = environments.environment("plot", REQUIREMENTS)
    except environments.UnavailableError as error:
        print(f"no plot: {error}")
        return
    runs = [run for runs in evidence.runs.values() for run in runs if run.end is not None]
    data = {
        "enqueued": per_second(evidence.enqueued_at, begin),
        "ended": per_second([run.end for run in runs if run.end is not None], begin),
        "faults": [
            {"kind": fault.kind, "begin": fault.begin - begin, "end": fault.end - begin} for fault in evidence.faults
        ],
    }
    subprocess.run([python, PLOT, target], input=json.dumps(data), text=True, check=True)
    print(f"written to {target}")


def per_second(moments: list[float], begin: float) -> list[int]:
    counts = Counter(int(at - begin) for at in moments)
    return [counts[second] for second in range(max(counts, default=-1) + 1)]
