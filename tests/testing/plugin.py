"""Run pytest in a process of its own, which finds djqueue's fixtures by their entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install(folder: Path) -> None:
    """Write what pip would write for the plugin, so that the checkout need not be installed again."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "djqueue_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: djqueue-plugin\nVersion: 1.0\n")
    points = project["entry-points"]["pytest11"]
    (info / "entry_points.txt").write_text(
        "[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points.items())
    )
    modules = [path.relative_to(ROOT) for path in (ROOT / "djqueue").rglob("*.py")]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in modules))


def run_pytest(scratch: Path, *arguments: str, cwd: Path = ROOT, timeout: float = 100, **environment: str) -> str:
    """Return the output. Raise AssertionError if a test fails."""
    plugins = scratch / "plugins"
    if not plugins.exists():
        install(plugins)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": f"{cwd}:{ROOT}:{plugins}"} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "Warning" not in output, output
    return output
