"""Every change of a job's status: the act, who does it, where its code is, and the statuses before and after.

`test_transitions.py` tries every act on a job of every status on every database and compares what it sees with this
table, and the diagram in docs/explanation/life_of_a_job.md with the one that is made here.
"""

from __future__ import annotations

from dataclasses import dataclass

NONE, SCHEDULED, BLOCKED, PENDING, CLAIMED = "(none)", "scheduled", "blocked", "pending", "claimed"
DONE, DEAD, CANCELLED = "done", "dead", "cancelled"
STATUSES = (NONE, SCHEDULED, BLOCKED, PENDING, CLAIMED, DONE, DEAD, CANCELLED)
DUE = (BLOCKED, PENDING)  # blocked if the job has a limit key
WAITING = (SCHEDULED, *DUE)

BEGIN, END = "<!-- transitions: begin -->\n", "<!-- transitions: end -->\n"


@dataclass(frozen=True)
class Act:
    name: str
    by: str
    code: str
    changes: frozenset[tuple[str, str]]


def _act(name: str, by: str, code: str, *ways: tuple[tuple[str, ...], tuple[str, ...]]) -> Act:
    """Return an act; each way is from one of some statuses to one of others."""
    return Act(name, by, code, frozenset((one, other) for before, after in ways for one in before for other in after))


HOLDER = "the worker process that holds it"
OTHERS = "the caller, or the admin"
ACTS = [
    _act("enqueue", "the caller, or a schedule", "lifecycle/enqueue.py", ((NONE,), WAITING)),
    _act("promote", "the supervisor's scheduler thread", "lifecycle/promote.py", ((SCHEDULED,), DUE)),
    _act(
        "admit",
        "a worker process or a supervisor",
        "lifecycle/admit.py",
        ((BLOCKED,), (PENDING,)),
        ((PENDING,), (BLOCKED,)),
    ),
    _act("claim", "a worker process", "lifecycle/claim.py", ((PENDING,), (CLAIMED,))),
    _act("ack", HOLDER, "lifecycle/settle.py", ((CLAIMED,), (DONE,))),
    _act("nack", HOLDER, "lifecycle/settle.py", ((CLAIMED,), (*WAITING, DEAD, CANCELLED))),
    _act("dead_letter", HOLDER, "lifecycle/settle.py", ((CLAIMED,), (DEAD,))),
    _act("snooze", HOLDER, "lifecycle/settle.py", ((CLAIMED,), WAITING)),
    _act("release", HOLDER, "lifecycle/settle.py", ((CLAIMED,), DUE)),
    _act("stop on request", HOLDER, "lifecycle/settle.py", ((CLAIMED,), (CANCELLED,))),
    _act("recover", "the supervisor, after a crash", "lifecycle/crash.py", ((CLAIMED,), (*WAITING, DEAD))),
    _act("reap", "any supervisor, after the lease", "lifecycle/reap.py", ((CLAIMED,), (*DUE, DEAD))),
    _act("put back", "a worker process without that task", "lifecycle/unknown_tasks.py", ((PENDING,), (SCHEDULED,))),
    _act("pause", OTHERS, "lifecycle/pause.py", ((PENDING,), (BLOCKED,))),
    _act("hold", "the caller, the admin, or a throttled task", "lifecycle/limits.py", ((PENDING,), (BLOCKED,))),
    _act("cancel", OTHERS, "lifecycle/cancel.py", (WAITING, (CANCELLED,))),
    _act("reschedule", OTHERS, "lifecycle/requeue.py", ((SCHEDULED,), DUE), (DUE, (SCHEDULED,))),
    _act("replace", "the caller", "lifecycle/debounce.py", ((SCHEDULED,), DUE), (DUE, (SCHEDULED,))),
    _act("requeue", OTHERS, "lifecycle/requeue.py", ((DEAD,), WAITING)),
    _act(
        "sweep",
        "any supervisor, after KEEP_DONE or KEEP_DEAD",
        "lifecycle/sweep.py",
        ((DONE, DEAD, CANCELLED), (NONE,)),
    ),
    _act("clear_dead", OTHERS, "lifecycle/sweep.py", ((DEAD,), (NONE,))),
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
