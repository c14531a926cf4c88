"""Charts as SVG, drawn on the server: no script, no inline style, and colours of the admin's theme by CSS classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

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
    return _svg(label, width, height, mark_safe("".join(drawn)))  # noqa: S308 - each bar is escaped


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
    """Return one bar. Charts have hundreds of them, so the text is put together by hand."""
    bottom = height
    drawn = []
    for css_class, value in bar.parts:
        tall = value * scale
        if tall:
            bottom -= tall
            place = f'x="{left + step * 0.1:.2f}" y="{bottom:.2f}" width="{step * 0.8:.2f}" height="{tall:.2f}"'
            drawn.append(f'<rect class="{escape(css_class)}" {place}/>')
    # The whole height can be pointed at, also above a small bar.
    space = f'<rect class="djq-space" x="{left:.2f}" y="0" width="{step:.2f}" height="{height}"/>'
    content = mark_safe(f"<g><title>{escape(bar.title)}</title>{space}{''.join(drawn)}</g>")  # noqa: S308 - numbers, and escaped texts
    return format_html('<a href="{}">{}</a>', bar.url, content) if bar.url else content


def _svg(label: str, width: int, height: int, content: SafeString) -> SafeString:
    return format_html(
        '<svg class="djq-chart" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>',
        label,
        width,
        height,
        content,
    )
