"""Who may read what djqueue serves outside of the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpResponse
from django.test import RequestFactory

from djqueue.access import closed, may_read
from djqueue.conf import config


def request(authorization: str | None = None, user: object = None):
    headers = {} if authorization is None else {"Authorization": authorization}
    made = RequestFactory().get("/metrics", headers=headers)
    if user is not None:
        made.user = user
    return made


@pytest.mark.parametrize(
    ("authorization", "allowed"),
    [
        ("Bearer s3cret", True),
        ("bearer  s3cret ", True),
        ("Bearer s3cre", False),
        ("Bearer s3cret2", False),
        ("Bearer ", False),
        ("Bearer", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer s3crét", False),
        ("Bearer \udcff", False),
        (None, False),
    ],
)
def test_the_token_must_match(settings, authorization, allowed):
    settings.DJQUEUE = {"HEALTH_TOKEN": "s3cret"}
    assert may_read(request(authorization)) is allowed


@pytest.mark.parametrize("authorization", ["Bearer ", "Bearer None", "Bearer", None])
def test_without_a_token_no_header_opens(settings, authorization):
    settings.DJQUEUE = {}
    assert not may_read(request(authorization))


@pytest.mark.django_db
def test_users_with_the_view_permission_may_read(settings):
    settings.DJQUEUE = {}
    clerk = User.objects.create_user("clerk")
    assert not may_read(request(user=AnonymousUser()))
    assert not may_read(request(user=clerk))
    clerk.user_permissions.add(Permission.objects.get(codename="view_job", content_type__app_label="djqueue"))
    assert may_read(request(user=User.objects.get(pk=clerk.pk)))
    assert may_read(request(user=User.objects.create_superuser("boss")))


def test_a_closed_view_is_not_found(settings):
    settings.DJQUEUE = {"HEALTH_TOKEN": "s3cret"}
    view = closed(lambda request: HttpResponse("open"))
    assert view(request("Bearer s3cret")).content == b"open"
    with pytest.raises(Http404):
        view(request())


@pytest.mark.parametrize("token", ["", "two words", "café", 5, b"s3cret"])
def test_the_token_is_checked_and_not_shown(settings, token):
    settings.DJQUEUE = {"HEALTH_TOKEN": token}
    with pytest.raises(ImproperlyConfigured) as raised:
        config()
    assert str(raised.value) == (
        "DJQUEUE: HEALTH_TOKEN must be a string of one or more ASCII characters without spaces."
    )
