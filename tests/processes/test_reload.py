"""`--reload`, with the signals that a terminal sends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import djqueue
from tests.tools import eventually, live
from tests.worker import tasks
from tests.worker.site import constants

LONG = 600  # seconds: longer than any test
pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.parametrize("processes", ["0", "1", "2"])]


def test_one_ctrl_c_drains(database, site, processes):
    running = tasks.wait_for.enqueue("go")
    worker = site.start("--reload", "--processes", processes, SHUTDOWN_GRACE=LONG)
    eventually(lambda: live(running.id).started)
    worker.press_ctrl_c()
    worker.wait_for_log("draining")
    djqueue.kv.set("go", True)
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)
    assert "stopping immediately" not in worker.log()
    assert "released while running" not in worker.log()
    eventually(lambda: not worker.members())


def test_a_second_ctrl_c_stops_at_once(database, site, processes):
    """And waits neither for its job nor for SHUTDOWN_GRACE."""
    running = tasks.sleep.enqueue(LONG)
    patient = constants(EXIT_GRACE=100)  # with the database, so that it can give the job back
    worker = site.start("--reload", "--processes", processes, env=patient, SHUTDOWN_GRACE=LONG)
    eventually(lambda: live(running.id).started)
    worker.press_ctrl_c()
    worker.wait_for_log("draining")
    worker.press_ctrl_c()
    assert worker.process.wait(120) == 1
    assert (running.status(), running.job().attempts) == ("pending", 0)
    eventually(lambda: not worker.members())


def test_a_change_lets_running_jobs_finish(database, site, processes, tmp_path):
    module, env = changing_tasks(tmp_path, 1), {"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "changing"}
    worker = site.start("--reload", "--processes", processes, env=env, SHUTDOWN_GRACE=LONG)
    running = djqueue.enqueue("changing", [str(tmp_path / "go")])
    eventually(lambda: live(running.id).started)
    change(worker, module, module.read_text().replace("return 1", "return 22"))
    (tmp_path / "go").touch()
    after = djqueue.enqueue("changing", [str(tmp_path / "go")])
    record = running.wait(60).record
    assert (record.result, record.attempts) == (1, 1)
    assert after.wait(60).record.result == 22
    assert worker.stop(signal.SIGTERM) == 0
    eventually(lambda: not worker.members())


def test_ctrl_c_after_a_change_drains_too(database, site, processes, tmp_path):
    """The first Ctrl-C finds the worker draining already, because code has changed."""
    module, env = changing_tasks(tmp_path, 1), {"PYTHONPATH": f"{tmp_path}:.", "DJQUEUE_TEST_APP": "changing"}
    worker = site.start("--reload", "--processes", processes, env=env, SHUTDOWN_GRACE=LONG)
    running = djqueue.enqueue("changing", [str(tmp_path / "go")])
    eventually(lambda: live(running.id).started)
    change(worker, module, module.read_text().replace("return 1", "return 22"))
    worker.press_ctrl_c()
    (tmp_path / "go").touch()
    assert worker.process.wait(60) == 0
    assert (running.status(), running.job().attempts) == ("done", 1)


def change(worker, module: Path, source: str) -> None:
    """Change a file until it is noticed: the worker may run before the reloader has seen the file as it was."""
    changed = module.with_suffix(".changed")
    changed.write_text(source)
    changed.replace(module)
    eventually(lambda: module.touch() or "draining" in worker.log())


def changing_tasks(folder: Path, result: int) -> Path:
    module = folder / "changing" / "tasks.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    module.write_text(
        "import os, time\nimport djqueue\n\n@djqueue.task(name='changing')\ndef changing(path):\n"
        f"    while not os.path.exists(path):\n        time.sleep(0.02)\n    return {result}\n"
    )
    return module
