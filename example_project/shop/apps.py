import os
import sys

from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "example_project.shop"

    def ready(self):
        if "SHOP_SHOWS_EVENTS" in os.environ:
            from .events import show

            show(say)


def say(text):
    sys.stdout.write(f"{text}\n")  # at once: several threads speak
    sys.stdout.flush()
