"""Counts the claims of a worker: each appends a byte to the file DJQUEUE_TEST_CLAIMS."""

from __future__ import annotations

import os
from typing import Any

from djqueue.worker.process import claimer

counter = os.open(os.environ["DJQUEUE_TEST_CLAIMS"], os.O_WRONLY | os.O_APPEND)
claim = claimer.claim


def counting(*args: Any, **kwargs: Any) -> Any:
    os.write(counter, b"c")
    return claim(*args, **kwargs)


claimer.claim = counting
