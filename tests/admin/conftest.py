"""Users of the admin. They and their log are in `default`, the jobs in the database under test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.test import Client

from tests.admin.tools import Person


@pytest.fixture
def people(database: str) -> Iterator[object]:
    """Create users: `people()` is a superuser, `people("view_job", "cancel_job")` staff with these permissions."""
    ContentType.objects.clear_cache()

    def make(*permissions: str, superuser: bool | None = None) -> Person:
        superuser = not permissions if superuser is None else superuser
        user = User.objects.create_user(f"user-{User.objects.count()}", password="x", is_staff=True)
        user.is_superuser = superuser
        user.save()
        found = Permission.objects.filter(content_type__app_label="djqueue", codename__in=permissions)
        assert len(found) == len(permissions), permissions
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return Person(client, user)

    yield make
    for model in (LogEntry, Session, User):
        model.objects.all().delete()


@pytest.fixture
def boss(people) -> Person:
    return people()
