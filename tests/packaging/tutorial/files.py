"""Write the files of a page."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.packaging.tutorial.page import File, PageError


def write(folder: Path, file: File) -> None:
    path = folder / file.path
    if file.mode is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
        return
    if not path.exists():
        raise PageError(f"line {file.line}: {file.path} does not exist")
    old = path.read_text()
    path.write_text(changed(old, file.text) if file.mode == "change" else f"{old.rstrip()}\n\n\n{file.text}")


def changed(old: str, new: str) -> str:
    """Return the old module with the names that the new one binds replaced, as a reader would edit it.

    Imports go to the top, and names that the old module does not bind to its end.
    """
    lines = old.splitlines()
    imports, added = [], []
    places = {name: node for node in ast.parse(old).body for name in bound(node)}
    replaced: list[tuple[ast.stmt, str]] = []
    for node in ast.parse(new).body:
        source = "\n".join(new.splitlines()[first_line(node) - 1 : node.end_lineno])
        known = [places[name] for name in bound(node) if name in places]
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(source)
        elif known:
            replaced.append((known[0], source))
        else:
            added.append(source)
    for node, source in sorted(replaced, key=lambda each: -each[0].lineno):
        lines[first_line(node) - 1 : node.end_lineno] = source.splitlines()
    top = end_of_docstring(old)
    lines[top:top] = imports
    return "\n".join([*lines, *(f"\n{source}" for source in added)]) + "\n"


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds, without those of imports."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def end_of_docstring(source: str) -> int:
    module = ast.parse(source)
    return module.body[0].end_lineno or 0 if ast.get_docstring(module) is not None else 0
