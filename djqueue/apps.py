from uuid import UUID

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjqueueConfig(AppConfig):
    name = "djqueue"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401 - registers the system checks
        from .lifecycle import eager

        eager.run_with(_run_at_once)


def _run_at_once(ids: list[UUID]) -> None:
    from .worker import inline  # only where jobs run

    inline.run_at_once(ids)
