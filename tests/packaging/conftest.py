"""The package, built once for all tests, and an environment that has nothing but it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.environment import Environment, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist and of the wheel, which is built from the sdist; or that of files built before."""
    if "DJQUEUE_TEST_DIST" in os.environ:
        return (ROOT / os.environ["DJQUEUE_TEST_DIST"]).resolve()
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], cwd=folder)
    return folder


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    [path] = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    [path] = dist.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment into which the wheel was installed, with what it requires."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.pip("install", str(wheel))
    return environment


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the repository with the changes of the working tree, which tests may change."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    folder = tmp_path_factory.mktemp("checkout") / "djqueue"
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)])
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in run(listed, cwd=ROOT).rstrip("\0").split("\0"):
        source, target = ROOT / name, folder / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
        else:
            target.unlink(missing_ok=True)
    return folder


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that other users may enter: as root, the PostgreSQL of the tests runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="djqueue-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
