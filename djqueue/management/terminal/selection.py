"""Act on jobs that are named by their ids, or selected by filters."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from djqueue.core.options import job_id
from djqueue.exceptions import InvalidOption
from djqueue.management.errors import bad_arguments
from djqueue.models import QueueState
from djqueue.operations import search
from djqueue.sql import statements

from . import texts
from .filters import add_filters, describe, hint, read_filters
from .output import Output, add_json
from .work import REFUSED, Work, add_yes, confirm

BATCH = 200  # jobs per transaction
WINDOW = 10_000  # ids read at once
MOST_SHOWN = 20  # refused ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What to do with jobs. `perform` returns the result of each job that was changed."""

    verb: str  # "Requeue"
    done: str  # "requeued"
    kind: str  # "dead "
    model: Any
    perform: Callable[[Sequence[UUID]], dict[UUID, str]]
    results: Sequence[str]  # the possible results, as in the JSON
    refusal: str  # "is not dead"
    enqueues: bool = False


@dataclass
class Tally:
    results: Counter[str] = field(default_factory=Counter)
    refused: dict[UUID, str] = field(default_factory=dict)
    interrupted: bool = False


class Selection:
    """The jobs to act on."""

    def __init__(self, act: Act, options: dict[str, Any]) -> None:
        self.act = act
        self.ids = [*dict.fromkeys(map(read_id, options["ids"]))]
        self.filters = read_filters(options)
        if self.ids and (self.filters or options["all"]):
            raise bad_arguments("Give either ids or filters, not both.")
        if not self.ids and not self.filters and not options["all"]:
            raise bad_arguments(f"Give ids, at least one filter, or --all for all {act.kind}jobs.")
        self.rows = search.find(act.model, self.filters)

    def count(self) -> int:
        return len(self.ids) if self.ids else self.rows.count()

    def batches(self) -> Iterator[list[UUID]]:
        windows = (
            [self.ids]
            if self.ids
            else ([job.pk for job in jobs] for jobs in search.batches(self.rows.only("id"), WINDOW))
        )
        for window in windows:
            for start in range(0, len(window), BATCH):
                yield window[start : start + BATCH]

    def text(self, count: int) -> str:
        noun = "job" if count == 1 else "jobs"
        return f"{count:,} {self.act.kind}{noun}{'' if self.ids else describe(self.filters)}"


def add_arguments(parser: ArgumentParser, states: Sequence[str] = ()) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="id of a job")
    add_filters(parser, states)
    parser.add_argument("--all", action="store_true", help="select all jobs, without a filter")
    parser.add_argument("--dry-run", action="store_true", help="only count the jobs")
    add_yes(parser)
    add_json(parser)


def run(output: Output, options: dict[str, Any], act: Act) -> int:
    selection = Selection(act, options)
    count = selection.count()
    if not count:
        return report_nothing(output, options, selection)
    if options["dry_run"]:
        if options["json"]:
            output.json({"matched": count})
        else:
            output.line(f"{selection.text(count)} would be {act.done}.")
        return 0
    if not confirm(output, f"{act.verb} {selection.text(count)}?", options):
        return REFUSED
    tally = carry_out(output, selection, count)
    report(output, options, selection, tally)
    return REFUSED if tally.refused or tally.interrupted else 0


def carry_out(output: Output, selection: Selection, count: int) -> Tally:
    act, tally = selection.act, Tally()
    with Work(output, count, f"jobs {act.done}") as work:
        for batch in selection.batches():
            changed = act.perform(batch)
            tally.results.update(changed.values())
            if selection.ids:  # what filters have found may change meanwhile; an id was meant
                tally.refused |= reasons([job for job in batch if job not in changed], act)
            if not work.step(len(batch)):
                tally.interrupted = True
                break
    return tally


def reasons(ids: Sequence[UUID], act: Act) -> dict[UUID, str]:
    """Return why jobs were not changed."""
    found = statements().get_many(ids) if ids else {}
    return {
        job: f"{act.refusal}, but {found[job].status.label}" if job in found else "does not exist, or is no longer kept"
        for job in ids
    }


def report_nothing(output: Output, options: dict[str, Any], selection: Selection) -> int:
    if options["json"]:
        output.json({"matched": 0} if options["dry_run"] else result_json(selection.act, Tally()))
    else:
        output.line(f"There are no {selection.act.kind}jobs{describe(selection.filters)}.{hint(selection.filters)}")
    return 0


def report(output: Output, options: dict[str, Any], selection: Selection, tally: Tally) -> None:
    act = selection.act
    if options["json"]:
        output.json(result_json(act, tally))
    else:
        parts = [f"{tally.results[name]:,} {name.replace('_', ' ')}" for name in act.results if tally.results[name]]
        output.line(f"{', '.join(parts) or f'0 {act.done}'}.")
    for job, reason in [*tally.refused.items()][:MOST_SHOWN]:
        output.note(f"{job} {reason}.")
    if (more := len(tally.refused) - MOST_SHOWN) > 0:
        output.note(f"{more:,} more ids were refused.")
    if tally.interrupted:
        output.note(f"Interrupted: the remaining jobs were not {act.done}. Repeat the command for them.")
    if act.enqueues and tally.results:
        note_paused(output, selection)


def note_paused(output: Output, selection: Selection) -> None:
    states = QueueState.objects.using(statements().alias).filter(paused=True)
    if selection.filters.queues:
        states = states.filter(queue__in=selection.filters.queues)
    if names := sorted(states.values_list("queue", flat=True)[:MOST_SHOWN]):
        output.note(f"Paused queues, whose jobs run when they are resumed: {', '.join(map(texts.clean, names))}.")


def result_json(act: Act, tally: Tally) -> dict[str, Any]:
    return {
        **{name: tally.results[name] for name in act.results},
        "refused": [{"id": str(job), "reason": reason} for job, reason in tally.refused.items()],
        "interrupted": tally.interrupted,
    }


def read_id(value: str) -> UUID:
    try:
        return job_id(value)
    except InvalidOption:
        raise bad_arguments(f"The id of a job must be a UUID, got {texts.clean(value)!r:.80}") from None
