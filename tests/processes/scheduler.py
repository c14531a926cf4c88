"""A scheduler and nothing else: `python -m tests.processes.scheduler ALIAS NAME`, until it is killed.

It sleeps until the next slot, and a hundredth of a second at least: what is due may be in the hands of another.
"""

from __future__ import annotations

import sys
import time

import django
from django.conf import settings

if __name__ == "__main__":
    alias, name = sys.argv[1:]
    settings.DJQUEUE = {"DATABASE": alias}
    settings.DATABASES[alias]["NAME"] = name
    django.setup()
    from djqueue import maintenance, schedules

    print("ready", time.time(), flush=True)
    while True:
        maintenance.fire_schedules()
        seconds = schedules.seconds_until_next()
        time.sleep(1.0 if seconds is None else min(1.0, max(0.01, seconds)))
