"""A user who operates the admin in a browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import django


class Visitor:
    def __init__(self, page: Any, server: str, screenshots: Path | None) -> None:
        self.page, self.server, self.screenshots = page, server, screenshots
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complain(message) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", self.failed)
        page.on("response", lambda answer: self.complaints.append(answer.url) if answer.status >= 400 else None)

    def complain(self, message: Any) -> None:
        self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def failed(self, request: Any) -> None:
        if "ERR_ABORTED" not in request.failure:  # leaving a page aborts its pending requests
            self.complaints.append(f"{request.url} {request.failure}")

    def log_in(self) -> None:
        self.page.goto(f"{self.server}/admin/")
        self.page.fill("#id_username", "ada")
        self.page.fill("#id_password", "engine")
        self.page.click("input[type=submit]")
        self.reads("Site administration")

    def open(self, path: str) -> None:
        self.page.goto(f"{self.server}/admin/djqueue/{path}")

    def overflows(self) -> list[str]:
        """Return the elements that are wider than the window."""
        return self.page.evaluate("""() => {
            const root = document.documentElement;
            if (root.scrollWidth <= window.innerWidth) return [];
            const wide = [...document.body.querySelectorAll("*")].filter(
                one => one.getBoundingClientRect().right > window.innerWidth + 1);
            return [`${root.scrollWidth} > ${window.innerWidth}`, ...wide.slice(0, 10).map(
                one => `${one.tagName}.${one.className}#${one.id} ${Math.round(one.getBoundingClientRect().right)}`)];
        }""")

    def clipped(self) -> list[str]:
        """Return the read-only values that are wider than their form."""
        return self.page.evaluate("""() => [...document.querySelectorAll(".readonly")]
            .filter(one => one.scrollWidth > one.clientWidth + 1
                || one.getBoundingClientRect().right > one.closest("fieldset").getBoundingClientRect().right + 1)
            .map(one => one.innerText.slice(0, 40))""")

    def cut_columns(self) -> list[str]:
        """Return the headers of list columns that do not fit into the list."""
        return self.page.evaluate("""() => [...document.querySelectorAll("#changelist .results, .djq-scroll")]
            .filter(box => box.scrollWidth > box.clientWidth)
            .flatMap(box => [...box.querySelectorAll("thead th")]
                .filter(one => one.getBoundingClientRect().right > box.getBoundingClientRect().right + 1)
                .map(one => one.innerText))""")

    def press(self, label: str) -> None:
        """Click a button, or a link with this label."""
        self.page.get_by_role("button", name=label).or_(self.page.get_by_role("link", name=label)).first.click()

    def confirm(self) -> None:
        self.page.locator(".djq-confirm input[type=submit]").click()

    def shows(self, text: str) -> bool:
        return text in self.page.inner_text("body")

    def reads(self, text: str, *, reloading: bool = False, patience: int = 60) -> None:
        """Wait until the current or the next page contains the text, for this many seconds."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if self.shows(text):
                return
            self.page.wait_for_timeout(100)
            if reloading:
                self.page.reload()
        raise AssertionError(f"{text!r} did not appear: {self.page.inner_text('body')}")

    def shoot(self, name: str, *, full_page: bool = True) -> None:
        if self.screenshots is None:
            return
        version = "".join(map(str, django.VERSION[:2]))
        self.page.screenshot(path=self.screenshots / f"{name}-{version}.png", full_page=full_page)
