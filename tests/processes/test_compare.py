"""The comparison with other queues: it runs, and it notices jobs that did not run once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import postgres

ROOT = Path(__file__).resolve().parents[2]


def compare(out: Path, *arguments: str) -> dict[tuple[str, str], list[float]]:
    """Run the comparison on the database server of the tests, and return its values by system and figure."""
    postgres.settings()
    options = ["--repetitions", "1", "--no-plot", "--out", str(out), "--database-url", os.environ[postgres.VARIABLE]]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "compare", *options, *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((out / "compare.json").read_text())
    assert found["failures"] == []
    assert found["skipped"] == {}
    return {(row["system"], row["figure"]): row["values"] for row in found["results"]}


def test_the_comparison_measures_djqueue_and_the_limit(tmp_path: Path) -> None:
    values = compare(tmp_path, "--quick", "--jobs", "200", "--systems", "limit,djqueue")
    for system in ("limit", "djqueue"):
        for figure in ("enqueue", "bulk", "drain 1", "drain 2", "pickup p50", "pickup p99", "wal", "commits", "memory"):
            assert values[system, figure][0] > 0
    table = (tmp_path / "compare.md").read_text()
    assert "| **djqueue**, 4 threads |" in table
    assert "| drain, 1 worker, of the limit" in table
