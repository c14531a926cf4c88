"""Charts as SVG, drawn on the server: no script, no inline style, and colours of the admin's theme by CSS classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

HEIGHT = 60
WIDTH = 600


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: parts from bottom to top, each with a CSS class, and a text that is shown when it is pointed at."""

    title: str
    parts: Sequence[tuple[str, float]]
    url: str = ""


def bars(label: str, values: Sequence[Bar], *, width: int = WIDTH, height: int = HEIGHT) -> SafeString:
    """Return a bar chart. `label` states its content for those who do not see it, so it should have the numbers."""
    highest = max((sum(value for _, value in bar.parts) for bar in values), default=0) or 1
    step = width / max(1, len(values))
    drawn = (_bar(bar, number * step, step, height / highest, height) for number, bar in enumerate(values))
    return _svg(label, width, height, _joined(drawn))


def line(label: str, values: Sequence[tuple[float, float]], *, width: int = WIDTH, height: int = HEIGHT) -> SafeString:
    """Return a line through points of (x, y), with y from zero."""
    if not values:
        return SafeString("")
    first, last = values[0][0], values[-1][0]
    across = width / ((last - first) or 1)
    up = (height - 2) / (max(y for _, y in values) or 1)
    points = " ".join(f"{(x - first) * across:.1f},{height - y * up:.1f}" for x, y in values)
    return _svg(label, width, height, format_html('<polyline class="djq-line" points="{}"/>', points))


def _bar(bar: Bar, left: float, step: float, scale: float, height: float) -> SafeString:
    bottom = height
    drawn = []
    for css_class, value in bar.parts:
        tall = value * scale
        if tall:
            bottom -= tall
            size = (f"{left + step * 0.1:.2f}", f"{bottom:.2f}", f"{step * 0.8:.2f}", f"{tall:.2f}")
            drawn.append(format_html('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>', css_class, *size))
    # The whole height can be pointed at, also above a small bar.
    place = (f"{left:.2f}", f"{step:.2f}", height)
    space = format_html('<rect class="djq-space" x="{}" y="0" width="{}" height="{}"/>', *place)
    content = format_html("<g><title>{}</title>{}{}</g>", bar.title, space, _joined(drawn))
    return format_html('<a href="{}">{}</a>', bar.url, content) if bar.url else content


def _svg(label: str, width: int, height: int, content: SafeString) -> SafeString:
    return format_html(
        '<svg class="djq-chart" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>',
        label,
        width,
        height,
        content,
    )


def _joined(parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))
