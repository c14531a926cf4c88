"""Delete finished jobs and KV entries that are no longer kept, now."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from djqueue.core.options import check_queue
from djqueue.exceptions import InvalidOption
from djqueue.lifecycle import sweep as sweeping
from djqueue.lifecycle.sweep import delete_in_batches
from djqueue.management.errors import bad_arguments

from .filters import add_queue, read_duration
from .output import Output, add_json
from .work import REFUSED, Work, add_yes, confirm


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--done-older-than", metavar="TIME", help="delete done jobs older than this, instead of KEEP_DONE"
    )
    parser.add_argument(
        "--dead-older-than", metavar="TIME", help="delete dead jobs older than this, instead of KEEP_DEAD"
    )
    add_queue(parser, "only jobs of this queue, and no KV entries; repeat for several")
    parser.add_argument("--dry-run", action="store_true", help="only count what would be deleted")
    add_yes(parser)
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    expired = find(options)
    counts = {name: sum(rows.count() for rows in querysets) for name, querysets in expired.items()}
    text = describe(counts)
    if options["dry_run"]:
        if options["json"]:
            output.json({"matched": counts})
        else:
            output.line(f"{text} would be deleted.")
        return 0
    if overrides_retention(options) and sum(counts.values()) and not confirm(output, f"Delete {text}?", options):
        return REFUSED
    deleted = dict.fromkeys(counts, 0)
    with Work(output, sum(counts.values()), "rows deleted") as work:
        for name, querysets in expired.items():
            for rows in querysets:
                if not work.interrupted:
                    deleted[name] += delete_in_batches(rows, work.step)
    if options["json"]:
        output.json({"deleted": deleted, "interrupted": work.interrupted})
    else:
        output.line(f"{describe(deleted)} deleted.")
    if work.interrupted:
        output.note("Interrupted. Repeat the command for the remaining rows.")
    return REFUSED if work.interrupted else 0


def find(options: dict[str, Any]) -> dict[str, Any]:
    """Return the rows to delete by kind."""
    ages = {name: None if options[f"{name}_older_than"] is None else age(options, name) for name in ("done", "dead")}
    queues = options["queue"] or None
    try:
        for queue in options["queue"]:
            check_queue(queue)
    except InvalidOption as error:
        raise bad_arguments(str(error)) from error
    return {
        "done": [*sweeping.expired_done(ages["done"], queues)],
        "dead": [*sweeping.expired_dead(ages["dead"], queues)],
        "kv": [] if queues else [sweeping.expired_kv()],
    }


def age(options: dict[str, Any], name: str) -> float:
    return read_duration(options[f"{name}_older_than"], f"--{name}-older-than")


def overrides_retention(options: dict[str, Any]) -> bool:
    return options["done_older_than"] is not None or options["dead_older_than"] is not None


def describe(counts: dict[str, int]) -> str:
    nouns = {"done": ("done job", "done jobs"), "dead": ("dead job", "dead jobs"), "kv": ("KV entry", "KV entries")}
    parts = [f"{count:,} {nouns[name][count != 1]}" for name, count in counts.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
