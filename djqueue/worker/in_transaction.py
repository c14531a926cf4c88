"""A burst inside the caller's transaction, such as that of a TestCase: in its thread and on its connection.

The threads and processes of a worker would not see the transaction's jobs, and what they write would not be rolled
back with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from djqueue.core import registry
from djqueue.lifecycle.admit import admit
from djqueue.lifecycle.claim import claim
from djqueue.lifecycle.promote import promote
from djqueue.sql import statements

from . import inline
from .options import Options


def run(options: Options) -> None:
    """Run the jobs that are due one after the other, in the order of claims, until none is due or --max-jobs ran."""
    for _ in islice(attempts(options), options.max_jobs):
        pass


def attempts(options: Options) -> Iterator[inline.Attempt]:
    """Run the jobs that are due, one with each step of the iterator."""
    registry.discover()
    while True:
        promote()
        admit()
        queues = options.queues or statements().claimable_queues()
        with inline.as_committed():
            claimed = claim({queue: 1 for queue in queues if options.consumes(queue)}, limit=1)
        if not claimed:
            return
        for job in claimed:
            yield inline.run(job)
