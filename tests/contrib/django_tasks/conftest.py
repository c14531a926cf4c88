from __future__ import annotations

from importlib.util import find_spec

import django
import pytest

if django.VERSION < (6, 0) and not find_spec("django_tasks"):
    collect_ignore_glob = ["test_*.py"]  # install django-tasks to run them


@pytest.fixture(autouse=True)
def nothing_ran():
    from tests.contrib.django_tasks import tasks

    tasks.ran.clear()
    tasks.died.clear()
