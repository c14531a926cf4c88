"""`--reload`, with the signals that a terminal sends."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import djqueue
from tests.tools import eventually, live
from tests.worker import tasks

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.parametrize("processes", ["0", "1", "2"])]


def test_one_ctrl_c_drains(database, site, processes):
    running = tasks.sleep.enqueue(3)
    worker = site.start("--reload", "--processes", processes)
    eventually(lambda: live(running.id).started, 60)
    worker.press_ctrl_c()
    worker.wait_for_log("draining")
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)
    assert "stopping immediately" not in worker.log()
    assert "released while running" not in worker.log()
    eventually(lambda: not worker.members())


def test_a_second_ctrl_c_stops_at_once(database, site, processes):
    running = tasks.sleep.enqueue(60)
    worker = site.start("--reload", "--processes", processes)
    eventually(lambda: live(running.id).started, 60)
    worker.press_ctrl_c()
    worker.wait_for_log("draining")
    start = time.monotonic()
    worker.press_ctrl_c()
    assert worker.process.wait(60) == 1
    assert time.monotonic() - start < 15, "it did not wait for SHUTDOWN_GRACE"
    assert (running.status(), running.job().attempts) == ("pending", 0)
    eventually(lambda: not worker.members())


def test_a_change_lets_running_jobs_finish(database, site, processes, tmp_path):
    module = changing_tasks(tmp_path, 1)
    worker = site.start(
        "--reload", "--processes", processes, env={"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "changing"}
    )
    running = djqueue.enqueue("changing", [8])
    eventually(lambda: live(running.id).started, 60)
    module.write_text(module.read_text().replace("return 1", "return 22"))
    worker.wait_for_log("draining")
    after = djqueue.enqueue("changing", [0])
    record = running.wait(60).record
    assert (record.result, record.attempts) == (1, 1)
    assert after.wait(60).record.result == 22
    assert worker.stop(signal.SIGTERM) == 0
    eventually(lambda: not worker.members())


def test_ctrl_c_after_a_change_drains_too(database, site, processes, tmp_path):
    """The first Ctrl-C finds the worker draining already, because code has changed."""
    module = changing_tasks(tmp_path, 1)
    worker = site.start(
        "--reload", "--processes", processes, env={"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "changing"}
    )
    running = djqueue.enqueue("changing", [8])
    eventually(lambda: live(running.id).started, 60)
    module.write_text(module.read_text().replace("return 1", "return 22"))
    worker.wait_for_log("draining")
    worker.press_ctrl_c()
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)


def changing_tasks(folder: Path, result: int) -> Path:
    module = folder / "changing" / "tasks.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    module.write_text(
        "import time\nimport djqueue\n\n@djqueue.task(name='changing')\n"
        f"def changing(seconds):\n    time.sleep(seconds)\n    return {result}\n"
    )
    return module
