"""The lines of the worker, made short: the log of djqueue is made for machines, too."""

from __future__ import annotations

import re

from .screen import BAD, DIM, GOOD, WARNING

RECORD = re.compile(
    r"\S+ \S+ (?P<level>[A-Z]+) (?P<event>[a-z ,]+?) job=\S+ task=(?:\S+\.)?(?P<task>\S+) queue=(?P<queue>\S+) "
    r"attempt=(?P<attempt>\S+) seconds=(?P<seconds>\S+)(?P<rest>.*)"
)
OTHER = re.compile(r"\d{4}-\S+ \S+ (?P<level>[A-Z]+) (?P<text>.*)")
SIGNS = {"done": "✔", "failed": "↻", "dead": "✖", "cancelled": "⊘"}
COLOURS = {"done": GOOD, "failed": WARNING, "dead": BAD}


class WorkerLines:
    """Shorten one line after the other. Many jobs of one task that are done in a row become two lines."""

    def __init__(self) -> None:
        self.last_done = ""
        self.hidden: list[tuple[str, str]] = []
        self.in_traceback = False

    def read(self, line: str) -> list[tuple[str, str]]:
        """Return the lines to write instead, with their colours."""
        if record := RECORD.fullmatch(line):
            return self.outcome(record)
        if self.in_traceback and not OTHER.fullmatch(line):
            return []  # the traceback of a dead job, which the admin shows
        self.in_traceback = False
        if " released while running " in line:
            return []  # the line of its outcome follows
        other = OTHER.fullmatch(line)
        return [(other["text"], BAD if other["level"] == "ERROR" else "")] if other else [(line, DIM)]

    def outcome(self, record: re.Match[str]) -> list[tuple[str, str]]:
        event, task = record["event"], record["task"]
        self.in_traceback = event == "dead"
        text = f"{SIGNS.get(event, '·')} {event:<9} {task:<14} {record['queue']:<9} attempt {record['attempt']}"
        text += f"  {float(record['seconds']):.2f} s{reason(record['rest'])}"
        line = (text, COLOURS.get(event, ""))
        if event == "done" and task == self.last_done:
            self.hidden.append(line)
            return []
        self.last_done = task if event == "done" else ""
        more, self.hidden = self.hidden, []
        return [*(more if len(more) < 2 else [(f"  … and {len(more)} more", DIM)]), line]


def reason(rest: str) -> str:
    """Return the error and the time of the next attempt."""
    error = re.search(r"error=['\"](.*)['\"]$", rest)
    retry = re.search(r"retry_in=(\S+)s", rest)
    text = f"  {error[1]}" if error else ""
    return text + (f"  (next attempt in {retry[1]} s)" if retry else "")
