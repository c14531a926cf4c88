"""A Task of Django itself, declared for one of Django's own backends."""

from __future__ import annotations

import django
from django.test import override_settings

if django.VERSION >= (6, 0):
    from django.tasks import task

    DUMMY = "django.tasks.backends.dummy.DummyBackend"
else:
    from django_tasks import task

    DUMMY = "django_tasks.backends.dummy.DummyBackend"

with override_settings(TASKS={"dummy": {"BACKEND": DUMMY, "QUEUES": []}}):

    @task(backend="dummy")
    def plain(number):
        return 2 * number
