"""Look for problems in settings, database, queues and workers, and say what to do about each."""

from __future__ import annotations

import shutil
import sys
import textwrap
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from djqueue.operations import doctor
from djqueue.operations.findings import Finding, Severity
from djqueue.operations.wording import counted

from .output import Output, add_json

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!"}
WIDEST = 80
ERASE_LINE = "\r\033[K"


def add_arguments(parser: ArgumentParser) -> None:
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    """Return 1 if there is a finding, also if all are warnings."""
    found = doctor.examine(_show)
    _show("")
    if options["json"]:
        output.json({"findings": [asdict(finding) for finding in found]})
    else:
        _print(output, found)
    return 1 if found else 0


def _show(name: str) -> None:
    """Show on a terminal what is being looked at, because some looks take seconds; "" erases it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{ERASE_LINE}Looking at {name} …" if name else ERASE_LINE)
        sys.stderr.flush()


def _print(output: Output, found: Sequence[Finding]) -> None:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    for finding in found:
        output.line(f"{MARKS[finding.severity]} {finding.severity.value} {finding.code}")
        for text in filter(None, (finding.text, finding.remedy)):
            output.line(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
        output.line("")
    counts = Counter(finding.severity for finding in found)
    words = [counted(counts[severity], severity.value) for severity in Severity if counts[severity]]
    output.line(
        f"Found {' and '.join(words)}. docs/reference/doctor.md describes each." if found else "Found no problems."
    )
