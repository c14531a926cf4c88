"""System checks, by subject. docs/reference/checks.md has a section for each id.

No check raises an exception, whatever the settings are, and none queries a database that it is not given.
"""

from . import database, settings, tasks
from .base import DATABASE, DOCS, SETTINGS, documented

__all__ = ["DATABASE", "DOCS", "SETTINGS", "database", "documented", "settings", "tasks"]
