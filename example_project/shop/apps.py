import os
import sys

from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "example_project.shop"

    def ready(self):
        if "SHOP_SHOWS_EVENTS" in os.environ:
            from .events import show

            show(write_line)


def write_line(text):
    sys.stdout.write(f"{text}\n")  # in one call, because several threads write
    sys.stdout.flush()
