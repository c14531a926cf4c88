"""A client for the admin: open pages, submit forms, read texts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

# The data of a submitted schedule form.
SCHEDULE = {
    "task": "tests.app.tasks.add",
    "enabled": "on",
    "cron": "* * * * *",
    "every": "",
    "timezone": "UTC",
    "args": "[]",
    "kwargs": "{}",
    "queue": "",
    "priority": "",
    "misfire": "once",
    "misfire_cap": "100",
    "overlap": "allow",
    "jitter": "0",
    "starts_at_0": "",
    "starts_at_1": "",
    "ends_at_0": "",
    "ends_at_1": "",
}


class Person:
    """A user with a client, on one admin site."""

    def __init__(self, client: Client, user: User | None, site: str = "admin") -> None:
        self.client, self.user, self.site = client, user, site

    def url(self, model: str, view: str = "", **query: Any) -> str:
        return f"/{self.site}/djqueue/{model}/{view}" + (f"?{urlencode(query)}" if query else "")

    def get(self, model: str, view: str = "", *, follow: bool = True, **query: Any) -> Any:
        return self.client.get(self.url(model, view, **query), follow=follow)

    def page(self, model: str, pk: object) -> Any:
        return self.get(model, f"{pk}/change/")

    def text(self, model: str, view: str = "", **query: Any) -> str:
        response = self.get(model, view, **query)
        assert response.status_code == 200, response.status_code
        return response.content.decode()

    def ask(self, model: str, action: str, *pks: object, query: dict[str, Any] | None = None, **more: Any) -> Any:
        """Choose an action in the list and return the confirmation page."""
        data = {"action": action, "select_across": "0" if pks else "1", "_selected_action": [*pks] or ["all"], **more}
        return self.client.post(self.url(model, **(query or {})), data, follow=True)

    def do(self, model: str, action: str, *pks: object, **more: Any) -> Any:
        """Choose an action, confirm it, and return the page after the redirects."""
        return self.ask(model, action, *pks, confirmed="yes", **more)

    def messages(self, response: Any) -> list[str]:
        return [str(message) for message in response.context["messages"]]

    def log(self) -> list[tuple[str, int, str]]:
        """Return the log entries of this user: object, flag, message."""
        entries = LogEntry.objects.filter(user=self.user).order_by("pk")
        return [(entry.object_id, entry.action_flag, entry.change_message) for entry in entries]


class Cells(HTMLParser):
    """The texts and the tags of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html.replace("<wbr>", ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))


def words(response: Any) -> str:
    """Return the text of a page."""
    return " ".join(Cells(response.content.decode()).texts)
