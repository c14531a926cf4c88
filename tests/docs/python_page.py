"""Run the Python blocks of one page, in a process of its own that is forked from one in which Django is ready.

`run` is called in that process. What it returns are the failures.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from inspect import CO_COROUTINE
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.docs.pages import ROOT, Block, blocks

# Mistakes in the code of the page, unlike what a task raises on purpose.
MISTAKES = {"AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "TypeError", "UnboundLocalError"}
RUN_THE_JOBS = "run the jobs"


@dataclass(frozen=True)
class Part:
    """The part of a block that belongs to one file."""

    block: Block
    offset: int
    source: str

    @property
    def file(self) -> str:
        found = re.match(r"# ([\w/]+\.py)\b", self.source)
        return found[1] if found else ""

    @property
    def is_script(self) -> bool:
        return re.match(r"# \w+\.py: .*Run it with: python", self.source) is not None

    @property
    def code(self) -> str:
        """The source, on the lines that it has on the page."""
        return "\n" * (self.block.line + self.offset - 1) + self.source

    @property
    def statements(self) -> list[ast.stmt]:
        return ast.parse(self.source).body

    @property
    def is_settings(self) -> bool:
        if self.file:
            return re.search(r"(^|/)settings\w*\.py$", self.file) is not None
        names = [node.id for one in self.statements for node in targets(one)]
        return (
            bool(names)
            and all(isinstance(one, ast.Assign | ast.Import | ast.ImportFrom) for one in self.statements)
            and all(name.isupper() for name in names)
        )

    @property
    def has_tests(self) -> bool:
        return any(
            (isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"))
            or (isinstance(one, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in one.bases))
            for one in self.statements
        )


def targets(statement: ast.stmt) -> list[ast.Name]:
    """Return the names that an assignment binds, also `DATABASES` of `DATABASES["default"] = …`."""
    found = statement.targets if isinstance(statement, ast.Assign) else []
    bases = [target.value if isinstance(target, ast.Subscript) else target for target in found]
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in bases]
    return [base for base in bases if isinstance(base, ast.Name)]


def parts(block: Block) -> list[Part]:
    starts = [0, *(found.start() for found in re.finditer(r"(?m)^# [\w/]+\.py\b", block.source) if found.start())]
    ends = [*starts[1:], len(block.source)]
    return [
        Part(block, block.source.count("\n", 0, start), block.source[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]


def is_tried(block: Block) -> bool:
    return block.language in ("python", "pycon") and block.is_run and not block.is_foreign


def run(page: Path) -> list[str]:
    """Run the blocks of a page in order; return what failed, each with its line on the page."""
    from tests.docs import ready

    ready.enter()
    names = ready.given()
    module = sys.modules["page"] = ModuleType("page")
    vars(module).update(names)
    failures = []
    for block in filter(is_tried, blocks(page)):
        output = io.StringIO()
        try:
            with redirect_stdout(output), redirect_stderr(output), warnings.catch_warnings():
                warnings.simplefilter("error")
                if block.comment == RUN_THE_JOBS:
                    ready.run_jobs()
                run_block(block, module)
        except BaseException:
            failures.append(f"{block}\n{traceback.format_exc(limit=-4)}{output.getvalue()}")
    return failures + ready.mistakes_in_jobs(MISTAKES)


def run_block(block: Block, module: ModuleType) -> None:
    if block.language == "pycon":
        run_session(block, vars(module))
        return
    for part in parts(block):
        if part.is_script:
            run_script(part)
        elif part.is_settings:
            check_settings(part)
        elif part.has_tests:
            run_tests(part, module)
        else:
            execute(part, module)


def execute(part: Part, page: ModuleType) -> None:
    """Execute code as the module that its first line names, or as the page."""
    from djqueue.core import registry

    module = find_module(part.file) if part.file else page
    for one in part.statements:  # a page may show a task again, with other options
        registry._tasks.pop(f"{module.__name__}.{getattr(one, 'name', '')}", None)
    run_code(part, vars(module))
    vars(page).update({name: value for name, value in vars(module).items() if not name.startswith("__")})


def run_code(part: Part, names: dict[str, Any]) -> None:
    code = compile(part.code, str(part.block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    awaitable = eval(code, names)
    if code.co_flags & CO_COROUTINE:
        asyncio.run(awaitable)


def find_module(file: str) -> ModuleType:
    """Return the module of a file: one of the site, or a new one."""
    name = file.removesuffix(".py").replace("/", ".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = []
        if parent := name.rpartition(".")[0]:
            setattr(find_module(parent), name.rpartition(".")[2], module)
        return module


def check_settings(part: Part) -> None:
    """Evaluate settings, and run the system checks of djqueue under them."""
    from django.core import checks
    from django.test import override_settings

    from tests.docs import ready

    for variable in re.findall(r"""(?:env(?:\.\w+)?\(|environ\[|environ\.get\(|getenv\()["'](\w+)""", part.source):
        os.environ.setdefault(variable, "postgres://shop:secret@db/shop" if variable.endswith("URL") else "1")
    names = ready.names_in_settings()
    before = deepcopy({name: value for name, value in names.items() if name.isupper()})
    run_code(part, names)
    changed = {name: value for name, value in names.items() if name.isupper() and value != before.get(name)}
    changed = {name: filled(value, before.get(name)) for name, value in changed.items()}
    assert changed, "no setting is changed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Django's, about DATABASES, whose connections are made anew here
        with override_settings(**changed), ready.fresh_connections():
            found = checks.run_checks(tags=["djqueue"])
    assert not [str(one) for one in found if one.is_serious()], found


def filled(value: Any, before: Any) -> Any:
    """Replace `...` in a list by what the setting contained."""
    if isinstance(value, list) and ... in value:
        where = value.index(...)
        kept = [one for one in before or [] if one not in value]
        return [*value[:where], *kept, *value[where + 1 :]]
    return value


def run_script(part: Part) -> None:
    """Run a file that is complete, in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / part.file).write_text(part.source)
        command = [sys.executable, part.file]
        done = subprocess.run(command, cwd=folder, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    print(done.stdout.decode())


def run_tests(part: Part, page: ModuleType) -> None:
    """Run the tests of a block with pytest and pytest-django; later blocks may use what it imports."""
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        line = part.block.line + part.offset
        file = Path(folder) / f"test_{part.block.page.stem}_line_{line}.py"
        file.write_text("from page import *\n" + part.source)
        ini = Path(folder) / "pytest.ini"
        ini.write_text("[pytest]\n")
        assert pytest.main(["-q", "--reuse-db", "-p", "no:cacheprovider", "-c", str(ini), str(file)]) == 0
    own = {name: value for name, value in vars(sys.modules[file.stem]).items() if not name.startswith(("test_", "__"))}
    vars(page).update({name: value for name, value in own.items() if getattr(value, "__module__", "") != file.stem})


def run_session(block: Block, names: dict[str, Any]) -> None:
    """Run a session at the Python prompt, and compare its output."""
    session = doctest.DocTestParser().get_doctest(block.source, names, str(block), str(block.page), block.line - 1)
    session.globs = names  # not a copy: later blocks use what is defined here
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    failed, _ = runner.run(session, out=report.write, clear_globs=False)
    assert not failed, report.getvalue()
