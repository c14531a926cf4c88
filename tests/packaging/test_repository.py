"""The workflows, the forms and the hooks: valid, about the same versions as the rest, and able to run."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import ROOT
from tests.packaging.environment import run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCHEMAS = [
    ("github-workflows", ".github/workflows/ci.yml"),
    ("github-workflows", ".github/workflows/release.yml"),
    ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
    ("github-issue-forms", ".github/ISSUE_TEMPLATE/feature.yml"),
    ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ("dependabot", ".github/dependabot.yml"),
]
ADDRESS = re.compile(r"https://github\.com/djqueue[\w./-]*")


def load(path: str) -> Any:
    import yaml

    return yaml.safe_load((ROOT / path).read_text())


def check_schema(schema: str, path: Path) -> None:
    run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)], cwd=ROOT)


def matrix() -> list[tuple[str, str]]:
    """The versions of Python and Django in noxfile.py."""
    import noxfile

    return [tuple(parameters.args) for parameters in noxfile.MATRIX]


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"\bmake (?:--silent )?([a-z][a-z-]*)", text))


def commands(workflow: str) -> str:
    """All that the jobs of a workflow run."""
    steps = [step for job in load(workflow)["jobs"].values() for step in job.get("steps", [])]
    return "\n".join(step["run"] for step in steps if "run" in step)


@pytest.mark.parametrize(("schema", "path"), SCHEMAS)
def test_the_files_for_github_are_valid(schema, path):
    check_schema(schema, ROOT / path)


def test_every_file_for_github_is_checked():
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.yml")}
    assert found == {path for _, path in SCHEMAS}


def test_a_mistake_in_a_workflow_is_found(tmp_path):
    broken = tmp_path / "ci.yml"
    broken.write_text((ROOT / ".github/workflows/ci.yml").read_text().replace("runs-on:", "runs_on:", 1))
    with pytest.raises(AssertionError, match="runs_on"):
        check_schema("github-workflows", broken)


def test_the_versions_of_the_workflow_are_those_of_nox():
    jobs = load(".github/workflows/ci.yml")["jobs"]
    tested = [(each["python"], each["django"]) for each in jobs["test"]["strategy"]["matrix"]["include"]]
    assert tested == matrix()
    browser = [(each["python"], each["django"]) for each in jobs["browser"]["strategy"]["matrix"]["include"]]
    assert browser == [matrix()[0], matrix()[-1]]
    wheel = load(".github/workflows/release.yml")["jobs"]["test-wheel"]
    assert wheel["strategy"]["matrix"]["python"] == [python for python, _ in matrix()]


def test_the_classifiers_are_the_versions_of_nox():
    classifiers = PROJECT["classifiers"]
    pythons = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    djangos = re.findall(r"^Framework :: Django :: (\d+\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    assert list(zip(pythons, djangos, strict=True)) == matrix()
    assert PROJECT["requires-python"] == f">={matrix()[0][0]}"
    assert f"Django>={matrix()[0][1]}" in PROJECT["dependencies"]
    assert classifiers == sorted(classifiers)


def test_the_workflow_runs_what_the_ci_script_runs():
    script = (ROOT / ".ci" / "run").read_text()
    workflow = make_targets(commands(".github/workflows/ci.yml"))
    assert make_targets("\n".join(re.sub("#.*", "", line) for line in script.splitlines())) - {"matrix"} <= workflow
    release = make_targets(commands(".github/workflows/release.yml"))
    known = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert workflow | release <= known


def test_only_the_job_that_publishes_can_prove_who_it_is():
    release = load(".github/workflows/release.yml")
    allowed = [name for name, job in release["jobs"].items() if "id-token" in job.get("permissions", {})]
    assert allowed == ["publish"]
    assert release["permissions"] == load(".github/workflows/ci.yml")["permissions"] == {"contents": "read"}
    assert set(release["jobs"]["publish"]["needs"]) == {"ci", "test-wheel"}
    assert release["jobs"]["publish"]["environment"]


def test_every_address_of_the_repository_is_the_one_in_the_metadata():
    files = ["pyproject.toml", *(path.name for path in ROOT.glob("*.md"))]
    files += [str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*") if path.is_file()]
    found = {(name, url) for name in files for url in ADDRESS.findall((ROOT / name).read_text())}
    source = PROJECT["urls"]["Source"]
    assert [
        each for each in found if not (each[1] == source or each[1].startswith((f"{source}/", f"{source}.git")))
    ] == []
    assert {name for name, _ in found} >= {"pyproject.toml", ".github/ISSUE_TEMPLATE/config.yml", "CONTRIBUTING.md"}


def test_the_hooks_refuse_a_commit_that_lint_would_refuse(checkout):
    """In a clone with the environment of this run."""
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    env = who | {"PRE_COMMIT_HOME": str(checkout.parent / "home")}
    precommit = [sys.executable, "-m", "pre_commit"]
    run([*precommit, "validate-config"], cwd=checkout)
    run([*precommit, "install"], cwd=checkout, env=env)

    def commit(path: str, text: str) -> str:
        (checkout / path).write_text(text)
        run(["git", "add", path], cwd=checkout)
        return run(["git", "commit", "--quiet", "--message", "Try"], cwd=checkout, env=env)

    with pytest.raises(AssertionError, match=r"(?s)F821.*ruff format.*Failed|ruff check.*Failed"):
        commit("tests/bad.py", "x = undefined_name\ny = [1,2]\n")
    run(["git", "rm", "--quiet", "--force", "tests/bad.py"], cwd=checkout)
    with pytest.raises(AssertionError, match=r"(?s)mypy\.+Failed.*import contracts\.+Failed"):
        commit("djqueue/core/bad.py", "from djqueue import worker\n\n\ndef f(x: int) -> str:\n    return worker\n")
    run(["git", "rm", "--quiet", "--force", "djqueue/core/bad.py"], cwd=checkout)
    commit("tests/good.py", '"""Good."""\n')


def test_the_hooks_run_the_commands_of_make_lint():
    hooks = load(".pre-commit-config.yaml")["repos"][0]["hooks"]
    entries = {re.sub(r" --(force-exclude|fix)", "", hook["entry"]) for hook in hooks}
    [recipe] = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lint = {line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in recipe.splitlines()}
    assert entries == {line.replace("format --check", "format") for line in lint}
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
