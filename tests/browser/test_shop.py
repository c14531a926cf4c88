"""The pages of the example shop in Chromium, with the demo behind them: real processes, and a strict policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import SCREENSHOTS
from tests.browser.visitor import Visitor
from tests.processes.demo import Demo

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

KINDS = [(width, theme) for theme in ("dark", "light") for width in (390, 1440)]
# A page of the back office, the button that starts its job, and what is shown in the end.
OFFICE = [
    ("newsletter", "Send to 60 customers", "60 of 60 sent"),
    ("export", "Export the orders", "Export of "),
    ("report", "Run it now", "✔ done"),
    ("recount", "Recount the sales", "✔ done"),
    ("partner", "Tell the partner", "Attempt 2: HTTP Error 503"),
    ("supplier", "Import winter.csv", "There is no price list winter.csv."),
    ("prices", "Ask 15 shops", "15 of 15 shops have answered"),
    ("transaction", "Sign up, and fail at the end", "Rolled back"),
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    # Slow, so that a job still runs when its page has been looked at on a busy machine.
    demo = Demo(tmp_path_factory.mktemp("demo"), "--no-traffic", SHOP_PACE="3")
    demo.address()
    yield demo
    code = demo.stop()
    demo.close()
    assert code == 0, demo.output()


@pytest.fixture
def shopper(demo: Demo) -> Iterator[Shopper]:
    from playwright.sync_api import sync_playwright

    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(60_000)
        shopper = Shopper(context.new_page(), demo.address().rstrip("/"), SCREENSHOTS)
        yield shopper
        browser.close()
    assert shopper.complaints == []


class Shopper(Visitor):
    """A visitor of the shop, who complains about errors in the console, and about pages without a policy."""

    def __init__(self, page: Any, server: str, screenshots: Path) -> None:
        super().__init__(page, server, screenshots)
        page.on("response", self.check_policy)

    def check_policy(self, answer: Any) -> None:
        if answer.request.is_navigation_request() and answer.status == 200:
            policy = answer.headers.get("content-security-policy", "")
            if not policy.startswith("default-src 'none'") or "unsafe" in policy:
                self.complaints.append(f"{answer.url} has the policy {policy!r}")

    def visit(self, path: str) -> None:
        self.page.goto(self.server + path)

    def keep(self, name: str) -> None:
        """Take screenshots, wide and narrow, light and dark. Check that nothing is wider than the window."""
        for width, theme in KINDS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme=theme)
            self.shoot(f"shop-{name}-{width}-{theme}")
            assert self.overflows() == [], (name, width)

    def enter_office(self) -> None:
        self.visit("/office/")
        self.page.fill("#id_username", "demo")
        self.page.fill("#id_password", "demo")
        self.page.click("input[type=submit]")
        self.reads("Each page starts jobs", patience=120)


def test_an_order_is_followed_on_its_page(shopper):
    shopper.visit("/")
    shopper.keep("products")
    shopper.page.locator("select[name=card]").first.select_option("slow")
    shopper.press("Order Assam")
    shopper.reads("Attempt 1: The bank did not answer", patience=120)
    shopper.keep("order-payment")
    bar = shopper.page.locator("#outcome progress[value]")
    bar.wait_for()
    shopper.keep("order-invoice")
    shopper.reads("The invoice was sent to ada@example.com.", patience=120)
    shopper.keep("order-done")
    assert shopper.page.locator("#outcome progress").count() == 0
    shopper.visit("/orders/")
    shopper.keep("orders")


def test_an_expired_card_is_shown(shopper):
    shopper.visit("/")
    shopper.page.locator("select[name=card]").first.select_option("expired")
    shopper.press("Order Assam")
    shopper.reads("Payment: declined", patience=120)
    shopper.keep("order-unpaid")


def test_every_button_of_the_back_office(shopper):
    shopper.enter_office()
    shopper.keep("office")
    for name, button, outcome in OFFICE:
        shopper.visit(f"/office/{name}/")
        shopper.press(button)
        shopper.reads(outcome, patience=240)
        shopper.keep(name)


def test_an_export_is_cancelled_from_its_page(shopper):
    shopper.enter_office()
    shopper.visit("/office/export/")
    shopper.press("Export the orders")
    shopper.reads("In progress…", patience=120)
    shopper.keep("export-running")
    shopper.press("Cancel")
    shopper.reads("⊘ cancelled", patience=120)
    shopper.keep("export-cancelled")


def test_a_button_that_is_hammered_creates_one_job(shopper):
    shopper.enter_office()
    shopper.visit("/office/recount/")
    shopper.press("Recount the sales")
    shopper.reads("job was created", patience=120)
    shopper.press("Recount the sales")
    shopper.reads("Already queued: no job was created.", patience=120)
    shopper.keep("recount-twice")
    shopper.reads("✔ done", patience=120)


def test_a_job_links_to_the_admin(shopper):
    shopper.enter_office()
    shopper.visit("/office/supplier/")
    shopper.press("Import winter.csv")
    shopper.reads("✖ dead", patience=120)
    shopper.press("Open the job in the admin")
    shopper.reads("Requeue with other arguments", patience=120)
    shopper.keep("dead-job")
