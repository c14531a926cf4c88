"""Log in to the admin that a page has set up, and read the list of finished jobs."""

from __future__ import annotations

import html
import re
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from tests.packaging.tutorial.follow import Follower
from tests.packaging.tutorial.page import PageError


def finished_jobs(follower: Follower) -> list[str]:
    """Return the rows of the list as text, read with the account of the page from the server of the page."""
    if "server" not in follower.running:
        follower.start("server", "python manage.py runserver")
    follower.running["server"].expect([f"Starting development server at http://127.0.0.1:{follower.port}/"])
    admin = f"http://127.0.0.1:{follower.port}/admin"
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    form = browser.open(f"{admin}/login/").read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
    assert token, form
    username, password = follower.account()
    fields = {"csrfmiddlewaretoken": token[1], "username": username, "password": password, "next": "/admin/"}
    welcome = browser.open(f"{admin}/login/", urlencode(fields).encode())
    if "/login/" in welcome.url:
        raise PageError(f"{username} cannot log in to the admin")
    page = browser.open(f"{admin}/djqueue/donejob/").read().decode()
    rows = re.findall(r"<tr>.*?</tr>", page.replace("<wbr>", ""), re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in rows]


def check_that_a_job_is_done(follower: Follower) -> None:
    """Raise PageError unless the admin shows a done job of a task that the page wrote."""
    rows = finished_jobs(follower)
    wanted = [re.compile(rf"\b{re.escape(module)}\.\w+ .*\bdone\b") for module in follower.tasks]
    if not any(pattern.search(row) for pattern in wanted for row in rows):
        raise PageError(f"the admin shows no done job of {follower.tasks}: {rows}")
