"""The slots that fire when the clocks change: `test_rules` checks this table, and docs/guides/schedules.md shows it."""

from __future__ import annotations

from dataclasses import dataclass

DAILY, HALF_PAST, QUARTERS, STEPS = RULES = ("0 2 * * *", "30 2 * * *", "*/15 * * * *", "0 */6 * * *")
BEGIN, END = "<!-- generated from tests/schedules/dst.py by tests/schedules/test_rules.py -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Change:
    """A day on which the clocks of a zone change, and the local times at which each rule fires on it.

    Of `*/15` only the firings within half an hour of the change are listed, and all are counted.
    """

    zone: str
    day: str
    clocks: str
    daily: str
    half_past: str
    quarters: str
    quarters_in_all: int
    steps: str


TABLE = [
    Change(
        zone="Europe/Berlin",
        day="2026-03-29",
        clocks="02:00 → 03:00",
        daily="03:00 +0200",
        half_past="03:00 +0200",
        quarters="01:30 +0100, 01:45 +0100, 03:00 +0200, 03:15 +0200",
        quarters_in_all=92,
        steps="00:00 +0100, 06:00 +0200, 12:00 +0200, 18:00 +0200",
    ),
    Change(
        zone="Europe/Berlin",
        day="2026-10-25",
        clocks="03:00 → 02:00",
        daily="02:00 +0200",
        half_past="02:30 +0200",
        quarters="02:30 +0200, 02:45 +0200, 02:00 +0100, 02:15 +0100",
        quarters_in_all=100,
        steps="00:00 +0200, 06:00 +0100, 12:00 +0100, 18:00 +0100",
    ),
    Change(
        zone="Europe/London",
        day="2026-03-29",
        clocks="01:00 → 02:00",
        daily="02:00 +0100",
        half_past="02:30 +0100",
        quarters="00:30 +0000, 00:45 +0000, 02:00 +0100, 02:15 +0100",
        quarters_in_all=92,
        steps="00:00 +0000, 06:00 +0100, 12:00 +0100, 18:00 +0100",
    ),
    Change(
        zone="Europe/London",
        day="2026-10-25",
        clocks="02:00 → 01:00",
        daily="02:00 +0000",
        half_past="02:30 +0000",
        quarters="01:30 +0100, 01:45 +0100, 01:00 +0000, 01:15 +0000",
        quarters_in_all=100,
        steps="00:00 +0100, 06:00 +0000, 12:00 +0000, 18:00 +0000",
    ),
    Change(
        zone="America/New_York",
        day="2026-03-08",
        clocks="02:00 → 03:00",
        daily="03:00 -0400",
        half_past="03:00 -0400",
        quarters="01:30 -0500, 01:45 -0500, 03:00 -0400, 03:15 -0400",
        quarters_in_all=92,
        steps="00:00 -0500, 06:00 -0400, 12:00 -0400, 18:00 -0400",
    ),
    Change(
        zone="America/New_York",
        day="2026-11-01",
        clocks="02:00 → 01:00",
        daily="02:00 -0500",
        half_past="02:30 -0500",
        quarters="01:30 -0400, 01:45 -0400, 01:00 -0500, 01:15 -0500",
        quarters_in_all=100,
        steps="00:00 -0400, 06:00 -0500, 12:00 -0500, 18:00 -0500",
    ),
    Change(
        zone="America/Havana",
        day="2026-03-08",
        clocks="00:00 → 01:00",
        daily="02:00 -0400",
        half_past="02:30 -0400",
        quarters="01:00 -0400, 01:15 -0400",
        quarters_in_all=92,
        steps="06:00 -0400, 12:00 -0400, 18:00 -0400",
    ),
    Change(
        zone="America/Havana",
        day="2026-11-01",
        clocks="01:00 → 00:00",
        daily="02:00 -0500",
        half_past="02:30 -0500",
        quarters="00:30 -0400, 00:45 -0400, 00:00 -0500, 00:15 -0500",
        quarters_in_all=100,
        steps="00:00 -0400, 00:00 -0500, 06:00 -0500, 12:00 -0500, 18:00 -0500",
    ),
    Change(
        zone="Australia/Lord_Howe",
        day="2026-04-05",
        clocks="02:00 → 01:30",
        daily="02:00 +1030",
        half_past="02:30 +1030",
        quarters="01:30 +1100, 01:45 +1100, 01:30 +1030, 01:45 +1030",
        quarters_in_all=98,
        steps="00:00 +1100, 06:00 +1030, 12:00 +1030, 18:00 +1030",
    ),
    Change(
        zone="Australia/Lord_Howe",
        day="2026-10-04",
        clocks="02:00 → 02:30",
        daily="02:30 +1100",
        half_past="02:30 +1100",
        quarters="01:30 +1030, 01:45 +1030, 02:30 +1100, 02:45 +1100",
        quarters_in_all=94,
        steps="00:00 +1030, 06:00 +1100, 12:00 +1100, 18:00 +1100",
    ),
]


def markdown() -> str:
    """The table as the docs show it."""
    lines = [
        "| zone and day | clocks | " + " | ".join(f"`{rule}`" for rule in RULES) + " |",
        "|---" * (2 + len(RULES)) + "|",
    ]
    for change in TABLE:
        quarters = f"{change.quarters_in_all} times, around the change at {change.quarters}"
        cells = [change.daily, change.half_past, quarters, change.steps]
        lines.append(f"| {change.zone} {change.day} | {change.clocks} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
