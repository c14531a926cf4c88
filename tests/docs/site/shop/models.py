from __future__ import annotations

from django.conf import settings
from django.db import models


class Order(models.Model):
    customer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    total = models.DecimalField(max_digits=9, decimal_places=2)
    status = models.CharField(max_length=20, default="open")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"


class Stock(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE)
    count = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.count} in stock"


class Invoice(models.Model):
    order = models.OneToOneField(Order, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return f"invoice of {self.order}"
