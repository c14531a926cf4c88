"""The simulation behind docs/howto/scale.md, with two hosts and few jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import postgres

SHORT = "--hosts 2 --idle 1 --sparse 5 --seconds 2 --rate 5 --duration 0.1 --waves 2 --empty 10".split()


def test_the_simulation_runs_each_job_once_and_reports_it(tmp_path):
    output = tmp_path / "simulation.md"
    # On a server of its own: it restarts it, and wants an empty queue.
    environment = {name: value for name, value in os.environ.items() if name != postgres.VARIABLE}
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.simulate", *SHORT, "--output", str(output)],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    text = output.read_text()
    assert text in finished.stdout
    jobs = re.search(r"Each of (\d+) jobs ran exactly once", text)
    assert jobs
    assert int(jobs[1]) > 2 * 4 * 2 + 10  # the backlog, the empty tasks, and those at random times
    rows = [line for line in text.splitlines() if line.startswith("| 2 |")]
    assert len(rows) == 3
    connections, formula = map(int, rows[0].split("|")[2:4])
    assert 2 * 5 <= connections <= formula == 2 * 11
