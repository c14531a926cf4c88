"""The parts of the overview as HTML, each rendered once per state of the data and kind of viewer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from . import context
from .cache import Cache
from .links import Links
from .snapshot import SNAPSHOT, THE_DAY, WORKERS

MOST_RENDERED = 200


@dataclass(frozen=True, slots=True)
class Viewer:
    """What the HTML depends on beside the data."""

    site: str
    prefix: str  # of the URLs
    may: frozenset[str]
    language: str | None
    zone: str


@dataclass(frozen=True, slots=True)
class Part:
    name: str  # of the template
    cache: Cache[Any]
    context: Callable[[Any, Links], dict[str, Any]]
    permissions: tuple[str, ...] = ()  # one of them is required


PARTS = [
    Part("attention", SNAPSHOT, context.attention),
    Part("queues", SNAPSHOT, context.queues, ("view_queuestate",)),
    Part("throughput", SNAPSHOT, context.throughput),
    Part("day", THE_DAY, context.day),
    Part("failures", SNAPSHOT, context.failures),
    Part("workers", WORKERS, context.workers, ("view_worker",)),
    Part("next", SNAPSHOT, context.coming),
]

_rendered: dict[tuple[str, Viewer], tuple[int, SafeString]] = {}
_lock = threading.Lock()


def rendered(viewer: Viewer, links: Links, seen: str = "") -> SafeString:
    """Return the parts, without those of which the page has this or a later version: "queues:17,workers:18"."""
    versions = _versions(seen)
    kept = {id(cache): cache.get() for cache in (SNAPSHOT, THE_DAY, WORKERS)}
    html = []
    for part in PARTS:
        found = kept[id(part.cache)]
        if part.permissions and not viewer.may.intersection(part.permissions):
            continue
        if versions.get(part.name, 0) < found.version:
            html.append(_part(part, found, viewer, links))
    return mark_safe("".join(html))  # noqa: S308 - rendered templates


def _part(part: Part, found: Any, viewer: Viewer, links: Links) -> SafeString:
    key = (part.name, viewer)
    version, html = _rendered.get(key, (0, mark_safe("")))
    if version != found.version:
        start = time.perf_counter()
        values = {"part": part.name, "version": found.version, **part.context(found.value, links)}
        html = render_to_string(f"admin/djqueue/overview/{part.name}.html", values)
        found.seconds += time.perf_counter() - start
        with _lock:
            if len(_rendered) >= MOST_RENDERED:
                _rendered.clear()
            _rendered[key] = (found.version, html)
    return html


def _versions(seen: str) -> dict[str, int]:
    pairs = (one.partition(":") for one in seen.split(",")[: len(PARTS)])
    return {
        name: int(version)
        for name, _, version in pairs
        if version.isascii() and version.isdigit() and len(version) < 20
    }
