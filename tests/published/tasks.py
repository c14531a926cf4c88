"""A subscriber that nothing imports but the first publish."""

from __future__ import annotations

import djqueue


@djqueue.task(topics=["published"])
def subscriber(n: int) -> None: ...
