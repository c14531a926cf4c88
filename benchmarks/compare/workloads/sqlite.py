"""Drain a queue on SQLite, with the options that Django's documentation and djqueue's advise."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject

from .drain import measure

SHARE = 0.2  # of the jobs of a drain on PostgreSQL


def sqlite(run: Run) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-sqlite-")))
        subjects = {}
        for name, subject in run.subjects.items():
            if subject.entry.sqlite:
                url = f"sqlite://{folder}/{name}.sqlite3"
                subjects[name] = Subject(subject.entry, subject.python, None, {"COMPARE_DATABASE": url})
                stack.callback(subjects[name].close)
        replace(run, subjects=subjects).take_turns(partial(drain, run))


def drain(run: Run, subject: Subject, repetition: int) -> None:
    count = max(20, int(run.sizes.drain * subject.entry.jobs * SHARE))
    got = measure(subject, count, **subject.entry.settings[0]).rate
    run.results.add(subject.name, "sqlite", got)
    run.say(f"sqlite {repetition}   {subject.name:<16} {got:>10,.0f} jobs/s")
