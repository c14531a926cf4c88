"""A failover between two real PostgreSQL servers, by the script behind docs/howto/scale.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_failover_with_synchronous_replication_loses_no_acknowledged_job():
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.failover"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout)
    assert finished.returncode == 0, finished.stderr
    assert "\n0 lost" in finished.stdout
