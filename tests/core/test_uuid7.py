from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from djqueue.core.uuid7 import uuid7


def test_version_variant_and_time():
    before = time.time_ns() // 1_000_000
    made = uuid7()
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    # A burst in an earlier test may have run ahead of the clock, by a quarter of a microsecond each.
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1000


def test_strictly_increasing_in_one_thread():
    made = [uuid7() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_unique_and_increasing_per_thread_across_threads():
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: [uuid7() for _ in range(5_000)], range(8)))
    for part in parts:
        assert part == sorted(part)
    assert len({made for part in parts for made in part}) == 40_000


def test_a_clock_that_goes_back_does_not_break_the_order(monkeypatch):
    first = uuid7()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert uuid7() > first


def test_a_forked_child_generates_its_own_ids():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"".join(uuid7().bytes for _ in range(100)))
        os._exit(0)
    os.close(write)
    mine = {uuid7() for _ in range(100)}
    data = b""
    while chunk := os.read(read, 65536):
        data += chunk
    os.close(read)
    os.waitpid(child, 0)
    theirs = {UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16)}
    assert len(theirs) == 100
    assert not theirs & mine
