"""Statements that do not name the claim token, or not for everything that they change."""

from __future__ import annotations

from tests.mutations.variant import MYSQL, SQLITE, Variant

CLAIMED_AGAIN = "lifecycle/test_reap.py::test_a_job_claimed_again_after_the_reaper_read_it_is_left_alone"
STALE = "lifecycle/test_settle.py::test_a_stale_holder_changes_nothing"

_SETTLE = '{locked("queue, task, attempts, cancel_requested, limit_key", wait=wait, guard=guard)}'
_RENEW = '{locked("id", wait=wait)}'


def without_token(locked: str, condition: str = '""') -> str:
    return locked.replace(")}", f').replace("AND token = g.token", {condition})}}')


VARIANTS = [
    Variant("settle without the claim token", "sql/postgresql/settle.py", _SETTLE, without_token(_SETTLE), STALE),
    Variant(
        "release without the claim token",
        "sql/postgresql/settle.py",
        _SETTLE,
        without_token(_SETTLE, "\"AND (token = g.token OR g.outcome = 'released')\""),
        STALE,
    ),
    Variant(
        "reap without the claim token",
        "sql/postgresql/settle.py",
        _SETTLE,
        without_token(_SETTLE, '"" if reaping else "AND token = g.token"'),
        CLAIMED_AGAIN,
    ),
    Variant(
        "ack of a group without the claim token",
        "sql/postgresql/settle.py",
        " AND token = claim.token\n",
        " AND claim.token IS NOT NULL\n",
        "sql/test_ack.py::test_a_stale_token_makes_the_whole_group_go_the_long_way "
        "sql/test_ack.py::test_a_token_counts_only_for_the_jobs_of_its_own_claim",
    ),
    Variant(
        "ack of a part of a group",
        "sql/postgresql/settle.py",
        "held WHERE (SELECT count(*) FROM held) = %s::int8",
        "held WHERE (SELECT count(*) FROM held) <= %s::int8",
        "sql/test_ack.py",
    ),
    Variant("renew without the claim token", "sql/postgresql/lease.py", _RENEW, without_token(_RENEW), STALE),
    Variant(
        "progress without the claim token",
        "sql/postgresql/lease.py",
        _RENEW,
        without_token(_RENEW, '"AND (token = g.token OR g.progress IS NOT NULL)"'),
        STALE,
    ),
    Variant(
        "a lost lease is not reported to the caller of renew and progress",
        "lifecycle/lease.py",
        "    [answer] = statements().renew([renewal], wait=True)\n    if answer is None or answer.expires_at is None:",
        "    [answer] = statements().renew([renewal], wait=True)\n    if answer is None:",
        STALE,
    ),
    Variant(
        "a lost lease is not reported to the caller of a settlement",
        "lifecycle/settle.py",
        "    if settled.outcome == Outcome.LOST:",
        "    if False:",
        STALE,
    ),
    Variant(
        "settle without the claim token on SQLite",
        "sql/portable.py",
        "row is None or row.token != item.token or (",
        "row is None or (",
        STALE,
        SQLITE,
    ),
    Variant(
        "settle without the claim token on MariaDB",
        "sql/portable.py",
        "row is None or row.token != item.token or (",
        "row is None or (",
        STALE,
        MYSQL,
    ),
    Variant(
        "release without the claim token on SQLite",
        "sql/portable.py",
        "row is None or row.token != item.token or (",
        "row is None or (row.token != item.token and item.outcome != Outcome.RELEASED) or (",
        STALE,
        SQLITE,
    ),
    Variant(
        "reap without the claim token on SQLite",
        "sql/portable.py",
        "row is None or row.token != item.token or (",
        "row is None or (row.token != item.token and not expired_at) or (",
        CLAIMED_AGAIN,
        SQLITE,
    ),
    Variant(
        "a claim is settled twice by one group on SQLite",
        "sql/portable.py",
        "            row.token = None  # a claim cannot be settled twice\n",
        "",
        "lifecycle/test_settle.py::test_a_claim_that_is_twice_in_a_group_is_settled_once",
        SQLITE,
    ),
    Variant(
        "renew without the claim token on SQLite",
        "sql/portable.py",
        "for item in renewals if item.id in rows and rows[item.id].token == item.token]",
        "for item in renewals if item.id in rows]",
        STALE,
        SQLITE,
    ),
    Variant(
        "renew without the claim token on MariaDB",
        "sql/portable.py",
        "for item in renewals if item.id in rows and rows[item.id].token == item.token]",
        "for item in renewals if item.id in rows]",
        STALE,
        MYSQL,
    ),
    Variant(
        "jobs of other claims are released with those of a lost claim",
        "lifecycle/crash.py",
        "claimed.filter(token__in=tokens)",
        "claimed",
        "lifecycle/test_reap.py::test_jobs_of_a_claim_whose_answer_was_lost_are_released_unspent",
    ),
    Variant(
        "a later claim is blamed for the crash of an earlier holder",
        "lifecycle/crash.py",
        "is not None and row.token == one.token]",
        "is not None]",
        "lifecycle/test_reap.py::test_a_job_claimed_again_is_not_blamed_for_the_crash_of_its_former_holder",
    ),
]
