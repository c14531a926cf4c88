"""A wrong wall clock for one process. Not by faketime: with it, time.sleep() fails or all clocks are wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Adds hours to the wall clock in every call of the C library.
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*ask)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = ask(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += OFFSET;
    return answer;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


def wrong_clock(folder: Path, hours: int) -> dict[str, str]:
    """Return the environment of a process whose wall clock is wrong; its monotonic clock is not touched."""
    if shutil.which("cc") is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux, to put another clock under a process: apt-get install gcc")
    source, library = folder / "clock.c", folder / f"clock{hours}.so"
    source.write_text(SOURCE)
    arguments = ["cc", "-shared", "-fPIC", f"-DOFFSET={hours * 3600}", "-o", str(library), str(source)]
    subprocess.run(arguments, check=True)
    return {"LD_PRELOAD": str(library)}
