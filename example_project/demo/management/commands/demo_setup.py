"""Create the tables and the data of the demo."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from example_project.demo import data


class Command(BaseCommand):
    help = "Create the tables and the data of the demo."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            call_command("migrate", verbosity=0, interactive=False)
        except OperationalError as error:
            raise CommandError(f"The database cannot be used: {error}".strip()) from error
        data.create()
