from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjqueueConfig(AppConfig):
    name = "djqueue"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401 - registers the system checks
