"""Schedules that fire twice, late, or after their end."""

from __future__ import annotations

from tests.mutations.variant import Variant

VARIANTS = [
    Variant(
        "the next slot is not moved",
        "schedules/fire.py",
        "        row.next_at = definition.not_after_its_end(rule.next(now))\n",
        "        definition.not_after_its_end(rule.next(now))\n",
        "schedules/test_fire.py::test_a_due_slot_becomes_a_job_and_the_next_slot_is_written",
    ),
    Variant(
        "a due schedule is not locked",
        "schedules/fire.py",
        '.order_by("next_at").select_for_update(skip_locked=True)[:size]',
        '.order_by("next_at")[:size]',
        "schedules/test_fire.py::test_many_schedulers_fire_each_slot_once "
        "schedules/test_fire.py::test_a_scheduler_does_not_wait_for_rows_locked_by_another",
    ),
    Variant(
        "a scheduler waits for locked schedules",
        "schedules/fire.py",
        '.order_by("next_at").select_for_update(skip_locked=True)[:size]',
        '.order_by("next_at").select_for_update()[:size]',
        "schedules/test_fire.py::test_a_scheduler_does_not_wait_for_rows_locked_by_another",
    ),
    Variant(
        "a slot whose job is live fires again",
        "schedules/fire.py",
        "    _leave_out_live_slots(database, firings)\n",
        "",
        "schedules/test_fire.py::test_a_slot_whose_job_is_live_does_not_fire_again_if_next_at_is_moved_back",
    ),
    Variant(
        "a missed slot after the end fires",
        "schedules/fire.py",
        "until = now if definition.ends_at is None else min(now, definition.ends_at)",
        "until = now",
        "schedules/test_fire.py::test_a_slot_after_the_end_does_not_fire "
        "schedules/test_fire.py::test_a_schedule_fires_only_between_its_start_and_its_end "
        "schedules/test_fire.py::test_a_schedule_whose_end_was_moved_before_its_next_slot_does_not_fire",
    ),
    Variant(
        "a slot after the end fires",
        "schedules/definition.py",
        "if self.ends_at is not None and slot > self.ends_at:",
        "if False:",
        "schedules/test_fire.py::test_a_slot_after_the_end_does_not_fire "
        "schedules/test_fire.py::test_a_schedule_fires_only_between_its_start_and_its_end",
    ),
    Variant(
        "missed slots are not skipped",
        "schedules/fire.py",
        "    if definition.misfire == Misfire.SKIP:\n",
        "    if False:\n",
        "schedules/test_fire.py::test_misfire_skip_after_three_hours_of_outage",
    ),
    Variant(
        "missed slots are not capped",
        "schedules/fire.py",
        "slots = last_slots(rule, first, until, definition.misfire_cap)",
        "slots = last_slots(rule, first, until, 10_000)",
        "schedules/test_fire.py::test_misfire_cap_keeps_the_latest_slots",
    ),
    Variant(
        "jobs of a schedule overlap",
        "schedules/fire.py",
        "    _leave_out_overlaps(database, firings)\n",
        "",
        "schedules/test_fire.py::test_overlap_skip_while_the_last_job_is_live",
    ),
    Variant(
        "a disabled schedule fires",
        "schedules/fire.py",
        "filter(enabled__in=[True])",
        "filter(enabled__in=[True, False])",
        "schedules/test_fire.py::test_a_disabled_schedule_does_not_fire_beside_one_that_is_due",
    ),
]
