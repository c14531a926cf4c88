from __future__ import annotations

from django.db import models


class Order(models.Model):
    email = models.EmailField()
    total = models.DecimalField(max_digits=9, decimal_places=2)

    def __str__(self) -> str:
        return f"order {self.pk}"
