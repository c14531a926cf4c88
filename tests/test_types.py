"""What a typed user sees: enqueue is checked against the function's signature."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = """
import djqueue

@djqueue.task
def send(n: int, text: str = "") -> str:
    return text

@djqueue.task(queue="mail", retry=djqueue.Fixed(5))
async def later(n: int) -> float:
    return 1.0

send.enqueue(1, text="x")
send.using(delay=5).enqueue(1)
later.enqueue(5)
handle: djqueue.JobHandle = send.delay(5)
answer: str = send(1)
send.enqueue("x")  # arg-type
send.using(queue="a").enqueue()  # call-arg
later.enqueue(n="x")  # arg-type
send.delay(1, 2)  # arg-type
wrong: int = send(1)  # assignment
"""


def test_enqueue_is_checked_against_the_signature(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    expected = {number: line.split("# ")[1] for number, line in enumerate(PROGRAM.splitlines(), 1) if "  # " in line}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {
        int(line.split(":")[1]): line.rsplit("[", 1)[1].rstrip("]")
        for line in done.stdout.splitlines()
        if ": error:" in line
    }
    assert found == expected, done.stdout + done.stderr
