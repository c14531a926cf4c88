"""Every change of a job's status: the act, who does it, where its code is, and the statuses before and after.

`test_transitions.py` tries every act on a job of every status on every database and compares what it sees with this
table, and the diagram in docs/life_of_a_job.md with the one that is made here.
"""

from __future__ import annotations

from dataclasses import dataclass

NONE, SCHEDULED, PENDING, CLAIMED = "(none)", "scheduled", "pending", "claimed"
DONE, DEAD, CANCELLED = "done", "dead", "cancelled"
STATUSES = (NONE, SCHEDULED, PENDING, CLAIMED, DONE, DEAD, CANCELLED)
WAITING = (SCHEDULED, PENDING)

BEGIN, END = "<!-- transitions: begin -->\n", "<!-- transitions: end -->\n"


@dataclass(frozen=True)
class Act:
    name: str
    by: str
    code: str
    changes: frozenset[tuple[str, str]]


def _act(name: str, by: str, code: str, before: tuple[str, ...], after: tuple[str, ...]) -> Act:
    changes = {(one, other) for one in before for other in after if one != other}
    return Act(name, by, code, frozenset(changes))


HOLDER = "the worker process that holds it"
ACTS = [
    _act("enqueue", "the caller, or a schedule", "lifecycle/enqueue.py", (NONE,), WAITING),
    _act("promote", "the supervisor's scheduler thread", "lifecycle/promote.py", (SCHEDULED,), (PENDING,)),
    _act("claim", "a worker process", "lifecycle/claim.py", (PENDING,), (CLAIMED,)),
    _act("ack", HOLDER, "lifecycle/settle.py", (CLAIMED,), (DONE,)),
    _act("nack", HOLDER, "lifecycle/settle.py", (CLAIMED,), (*WAITING, DEAD, CANCELLED)),
    _act("dead_letter", HOLDER, "lifecycle/settle.py", (CLAIMED,), (DEAD,)),
    _act("snooze", HOLDER, "lifecycle/settle.py", (CLAIMED,), WAITING),
    _act("release", HOLDER, "lifecycle/settle.py", (CLAIMED,), (PENDING,)),
    _act("stop on request", HOLDER, "lifecycle/settle.py", (CLAIMED,), (CANCELLED,)),
    _act("recover", "the supervisor, after a crash", "lifecycle/crash.py", (CLAIMED,), (*WAITING, DEAD)),
    _act("reap", "any supervisor, after the lease", "lifecycle/reap.py", (CLAIMED,), (PENDING, DEAD)),
    _act("put back", "a worker process without that task", "lifecycle/unknown_tasks.py", (PENDING,), (SCHEDULED,)),
    _act("cancel", "the caller, or the admin", "lifecycle/cancel.py", WAITING, (CANCELLED,)),
    _act("reschedule", "the caller, or the admin", "lifecycle/requeue.py", WAITING, WAITING),
    _act("requeue", "the caller, or the admin", "lifecycle/requeue.py", (DEAD,), WAITING),
    _act(
        "sweep", "any supervisor, after KEEP_DONE or KEEP_DEAD", "lifecycle/sweep.py", (DONE, DEAD, CANCELLED), (NONE,)
    ),
    _act("clear_dead", "the caller, or the admin", "lifecycle/sweep.py", (DEAD,), (NONE,)),
]


def markdown() -> str:
    """The diagram, and for every status who moves a job in and who moves it out."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for act in ACTS:
        for change in act.changes:
            arrows.setdefault(change, []).append(act.name)
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, after in sorted(arrows, key=lambda change: (STATUSES.index(change[0]), STATUSES.index(change[1]))):
        ends = ["[*]" if status == NONE else status for status in (before, after)]
        lines.append(f"    {ends[0]} --> {ends[1]}: {', '.join(arrows[before, after])}")
    lines += ["```", "", "| status | moved in by | moved out by |", "|---|---|---|"]
    for status in STATUSES[1:]:
        into = [act.name for act in ACTS if any(after == status for _, after in act.changes)]
        out = [act.name for act in ACTS if any(before == status for before, _ in act.changes)]
        lines.append(f"| {status} | {', '.join(into)} | {', '.join(out)} |")
    lines += ["", "| act | done by | code |", "|---|---|---|"]
    lines += [f"| {act.name} | {act.by} | `djqueue/{act.code}` |" for act in ACTS]
    return "\n".join(lines) + "\n"
