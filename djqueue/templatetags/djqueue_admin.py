"""What the admin's templates need."""

from __future__ import annotations

from datetime import datetime

from django import template

from djqueue.admin import display

register = template.Library()


@register.filter
def instant(value: datetime | None) -> str:
    return display.instant(value)
