"""The public names of djqueue in the form of a stub file, as the reference shows them."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from django.utils.functional import cached_property

WIDTH = 84  # what a page shows without scrolling
SPECIAL_TWINS = {"wait": "await_", "args": "aload", "kwargs": "aload"}
# Attributes of a ClaimedJob that are of no use to callers.
HIDDEN = {"row", "token", "worker", "clock"}
# Methods that djqueue itself calls.
INTERNAL = {"Limit": {"names", "check", "key_for"}}
SHOWN_TYPES = {"str | RegisteredTask": "str | Task", "str | NamedTask": "str | Task"}


def function(func: Callable[..., Any], name: str, owner: Any) -> str:
    """Return the signature of a function, with the name of its async variant as a comment."""
    signature = inspect.signature(func)
    parameters = list(_parameters(signature))
    result = _shown(signature.return_annotation)
    if inspect.isgeneratorfunction(inspect.unwrap(func)):  # of contextlib.contextmanager
        result = result.replace("Iterator", "AbstractContextManager")
    variant = twin(name, owner)
    comment = f"  # async: {variant}" if variant else ""
    keyword = "async def" if inspect.iscoroutinefunction(func) else "def"
    line = f"{keyword} {name}({', '.join(parameters)}) -> {result}: ..."
    if len(line + comment) <= WIDTH:
        return line + comment
    return "\n".join([f"{keyword} {name}(", *(f"    {one}," for one in parameters), f") -> {result}: ...{comment}"])


def class_stub(kind: type, *, constructor: bool) -> str:
    """Return the public attributes and methods of a class."""
    lines = [f"class {kind.__name__}:"]
    lines += [f"    {name}: {type_}" for name, type_ in attributes(kind).items()]
    if constructor:
        lines += _indented(function(kind.__init__, "__init__", kind))
    for name in members(kind):
        lines += _indented(_member(kind, name))
    return "\n".join(lines)


def attributes(kind: type) -> dict[str, str]:
    """Return the public attributes that a class sets in its constructor, and their types."""
    if dataclasses.is_dataclass(kind) or kind.__init__ is object.__init__:
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))
    types = {one.arg: ast.unparse(one.annotation) for one in tree.body[0].args.args if one.annotation}  # type: ignore[attr-defined]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and target.attr not in HIDDEN:
                named = types.get(ast.unparse(node.value)) if node.value else None
                found[target.attr] = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else named or "Any"
    return found


def members(kind: type) -> list[str]:
    """Return the public names of a class in the order of the code, without async variants."""
    fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    hidden = {field.name for field in dataclasses.fields(kind) if not field.repr} if fields else set()
    own = [name for name in vars(kind) if not name.startswith("_") and name not in fields]
    own = [
        name for name in own if name != "aload" and not _is_twin(name, own) and not isinstance(vars(kind)[name], str)
    ]
    hidden |= INTERNAL.get(kind.__name__, set())
    return [name for name in (*fields, *own) if name not in hidden]


def public_functions(module: ModuleType, names: list[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the functions among these names of a module, without async variants."""
    for name in names:
        found = getattr(module, name)
        if inspect.isroutine(found) and not _is_twin(name, names):
            yield name, found


def twin(name: str, owner: Any) -> str | None:
    """Return the name of the async variant of a function or attribute, if there is one."""
    variant = SPECIAL_TWINS.get(name, f"a{name}")
    return variant if hasattr(owner, variant) else None


def field_type(kind: type, name: str) -> str:
    [found] = [field.type for field in dataclasses.fields(kind) if field.name == name]
    return _shown(found)


def _is_twin(name: str, names: list[str]) -> bool:
    return any(SPECIAL_TWINS.get(other, f"a{other}") == name for other in names)


def _member(kind: type, name: str) -> str:
    found = inspect.getattr_static(kind, name, None)
    variant = twin(name, kind)
    comment = f"  # async: {variant}" if variant else ""
    if isinstance(found, property | cached_property | functools.cached_property):
        func = found.fget if isinstance(found, property) else found.func
        return f"{name}: {_shown(inspect.signature(func).return_annotation)}{comment}"
    if inspect.isroutine(found):
        return function(found, name, kind)
    return f"{name}: {field_type(kind, name)}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    kinds = inspect.Parameter
    starred = False
    for name, one in signature.parameters.items():
        if one.kind is kinds.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or one.kind is kinds.VAR_POSITIONAL
        text = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(one.kind, "") + name
        annotation = "" if one.annotation is kinds.empty else _shown(one.annotation)
        if annotation and not annotation.startswith("Unpack["):
            text += f": {annotation}"
        if one.default is not kinds.empty:
            text += f" = {_default(one.default)}"
        yield text
        if one.kind is kinds.POSITIONAL_ONLY:
            yield "/"


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "..." if callable(value) else repr(value)


def _shown(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return SHOWN_TYPES.get(text, text)


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]
