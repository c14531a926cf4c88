from django.db import models
from django.urls import reverse
from django.utils import timezone


class Product(models.Model):
    name = models.CharField(max_length=80, unique=True)
    picture = models.CharField(max_length=40)  # a file in static/shop/products
    description = models.CharField(max_length=200)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    sold = models.PositiveIntegerField(default=0)  # written by recount_sales

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class Customer(models.Model):
    name = models.CharField(max_length=80)
    email = models.EmailField(unique=True)
    welcomed_at = models.DateTimeField(null=True)
    suggestion = models.ForeignKey(Product, models.SET_NULL, null=True)

    def __str__(self) -> str:
        return self.name


class Card(models.TextChoices):
    """Test cards, as payment services offer them."""

    GOOD = "good", "good card"
    SLOW = "slow", "slow bank"  # it does not answer at first
    EXPIRED = "expired", "expired card"


class Order(models.Model):
    class Status(models.TextChoices):
        NEW = "new", "waiting"
        PAID = "paid", "paid"
        UNPAID = "unpaid", "declined"

    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveSmallIntegerField(default=1)
    email = models.EmailField()
    card = models.CharField(max_length=10, choices=Card, default=Card.GOOD)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    placed_at = models.DateTimeField(default=timezone.now, db_index=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.NEW)
    mailed_at = models.DateTimeField(null=True)
    # The ids of the jobs, for the page of the order.
    payment_job = models.UUIDField(null=True)
    invoice_job = models.UUIDField(null=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"order {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("shop:order", args=[self.pk])


class Invoice(models.Model):
    order = models.OneToOneField(Order, models.CASCADE)
    pdf = models.BinaryField()

    def __str__(self) -> str:
        return f"invoice of {self.order}"


class Newsletter(models.Model):
    subject = models.CharField(max_length=100)
    recipients = models.PositiveIntegerField()
    written_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.subject


class Delivery(models.Model):
    """A newsletter that was sent to a customer."""

    newsletter = models.ForeignKey(Newsletter, models.CASCADE)
    customer = models.ForeignKey(Customer, models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint("newsletter", "customer", name="shop_one_delivery")]

    def __str__(self) -> str:
        return f"{self.newsletter} to {self.customer}"


class Report(models.Model):
    day = models.DateField(unique=True)
    orders = models.PositiveIntegerField()
    revenue = models.DecimalField(max_digits=10, decimal_places=2)

    def __str__(self) -> str:
        return f"report of {self.day}"


class Export(models.Model):
    csv = models.TextField()
    rows = models.PositiveIntegerField()
    written_at = models.DateTimeField(default=timezone.now)
    job = models.UUIDField(unique=True)

    def __str__(self) -> str:
        return f"export of {self.rows} orders"


class Quote(models.Model):
    """What another shop asks for a product."""

    product = models.ForeignKey(Product, models.CASCADE)
    shop = models.CharField(max_length=40)
    price = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        constraints = [models.UniqueConstraint("product", "shop", name="shop_one_quote")]

    def __str__(self) -> str:
        return f"{self.product} at {self.shop}"
