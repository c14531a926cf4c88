"""The login of the demo: the pages show it, but only in processes that `manage.py demo` has started."""

from __future__ import annotations

import os
from typing import Any

from django.http import HttpRequest

USER, PASSWORD = "demo", "demo"
VARIABLE = "DJQUEUE_DEMO"


def shown(request: HttpRequest) -> dict[str, Any]:
    """A context processor."""
    return {"demo_login": (USER, PASSWORD)} if VARIABLE in os.environ else {}
