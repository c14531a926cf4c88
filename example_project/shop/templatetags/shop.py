"""How the shop shows a job and Python code."""

from __future__ import annotations

import io
import keyword
import tokenize
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from djqueue import JobRecord, Status

register = template.Library()

LISTS = {Status.DONE: "donejob", Status.CANCELLED: "donejob", Status.DEAD: "deadjob"}  # else "job"
SIGNS = {Status.DONE: "✔", Status.DEAD: "✖", Status.CANCELLED: "⊘", Status.CLAIMED: "▶"}  # else waiting
# Since Python 3.12, an f-string is several tokens.
STRINGS = ["STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"]
KINDS = {getattr(tokenize, name): "string" for name in STRINGS if hasattr(tokenize, name)}
KINDS[tokenize.COMMENT] = "comment"


@register.inclusion_tag("shop/job.html")
def shop_job(job: JobRecord) -> dict[str, Any]:
    """A job in one line, with a link to its page in the admin."""
    model = LISTS.get(job.status, "job")
    return {
        "job": job,
        "name": job.task.rpartition(".")[2],
        "sign": SIGNS.get(job.status, "◷"),
        "url": reverse(f"admin:djqueue_{model}_change", args=[job.id]),
    }


@register.filter
def highlighted(source: str) -> SafeString:
    """Python source as HTML, with classes for keywords, strings and comments."""
    lines, html, (row, column) = source.splitlines(keepends=True), "", (1, 0)

    def text_until(end: tuple[int, int]) -> str:
        nonlocal row, column
        text = ""
        while (row, column) < end and row <= len(lines):
            stop = end[1] if row == end[0] else len(lines[row - 1])
            text += lines[row - 1][column:stop]
            (row, column) = (row, stop) if row == end[0] else (row + 1, 0)
        return text

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        html += escape(text_until(token.start))
        kind = "keyword" if keyword.iskeyword(token.string) else KINDS.get(token.type)
        text = text_until(token.end)
        html += format_html('<span class="{}">{}</span>', kind, text) if kind else escape(text)
    return mark_safe(html)  # noqa: S308 - escaped piece by piece
