"""Models whose instances the tests pass to jobs."""

from __future__ import annotations

from uuid import uuid4

from django.db import models


class Visible(models.Manager):
    def get_queryset(self):
        return super().get_queryset().filter(hidden=False)


class Place(models.Model):
    name = models.CharField(max_length=50)
    hidden = models.BooleanField(default=False)

    objects = Visible()

    def __str__(self) -> str:
        return self.name


class Shop(Place):
    """Its primary key is a link to its place."""

    owner = models.CharField(max_length=50, default="")

    def __str__(self) -> str:
        return self.owner


class ProxyPlace(Place):
    class Meta:
        proxy = True

    def __str__(self) -> str:
        return self.name


class Ticket(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid4)

    def __str__(self) -> str:
        return str(self.pk)
