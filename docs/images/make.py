"""Make demo.webp and shop.png from the running demo. By hand, in an environment with Pillow and Playwright:

make demo
python docs/images/make.py http://127.0.0.1:8000/
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
WINDOW = {"width": 1280, "height": 1080}
WIDTH = 1000  # of the images
FRAMES, SECONDS_BETWEEN = 10, 5
SHOWN_FOR = 1000  # milliseconds, for each frame


def main(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, color_scheme="light")
        page.goto(address)
        shrink(page.screenshot()).save(HERE / "shop.png", optimize=True)
        log_in(page, address)
        frames = []
        for _ in range(FRAMES):
            page.wait_for_timeout(SECONDS_BETWEEN * 1000)
            frames.append(shrink(page.screenshot()))
        browser.close()
    first, *others = frames
    first.save(HERE / "demo.webp", save_all=True, append_images=others, duration=SHOWN_FOR, lossless=True, method=6)


def log_in(page: Any, address: str) -> None:
    """Open the overview, without the list of apps beside it."""
    page.goto(f"{address}admin/djqueue/overview/")
    page.fill("#id_username", "demo")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    page.click("#toggle-nav-sidebar")
    page.wait_for_selector("text=Needs attention")


def shrink(screenshot: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(screenshot)).convert("RGB")
    return image.resize((WIDTH, image.height * WIDTH // image.width), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main(sys.argv[1])
