"""Partial indexes with an equivalent for MariaDB, where Django would leave a conditional one out without a word."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q


class StatusIndex(models.Index):
    """An index over the rows of one status; where there are no partial indexes, the status leads the key."""

    def __init__(self, *, status: str, fields: list[str], name: str) -> None:
        self.status = status
        super().__init__(fields=fields, name=name)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "status": self.status}

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.features.supports_partial_indexes:
            plain = models.Index(fields=self.fields, name=self.name, condition=Q(status=self.status))
        else:
            plain = models.Index(fields=["status", *self.fields], name=self.name)
        return plain.create_sql(model, schema_editor, using, **kwargs)


class UniqueWhereSet(models.UniqueConstraint):
    """Unique where its last field is set; where there are no partial indexes, NULLs are distinct anyway."""

    def __init__(self, *, fields: list[str], name: str, **kwargs: Any) -> None:
        super().__init__(fields=fields, name=name, **kwargs)

    def _plain(self, schema_editor: Any) -> models.UniqueConstraint:
        condition = None
        if schema_editor.connection.features.supports_partial_indexes:
            condition = Q(**{f"{self.fields[-1]}__isnull": False})
        return models.UniqueConstraint(fields=self.fields, name=self.name, condition=condition)

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._plain(schema_editor).constraint_sql(model, schema_editor)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._plain(schema_editor).create_sql(model, schema_editor)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        return self._plain(schema_editor).remove_sql(model, schema_editor)
