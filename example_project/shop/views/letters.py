from __future__ import annotations

from django.contrib.admin.views.decorators import staff_member_required
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from example_project.shop.forms import LetterForm
from example_project.shop.mailing import send_newsletter
from example_project.shop.models import Customer, Newsletter
from example_project.shop.pages import show
from example_project.shop.tasks import send_letter


@staff_member_required
def newsletter(request: HttpRequest) -> HttpResponse:
    form = LetterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        send_newsletter(form.cleaned_data["subject"], Customer.objects.all())
        return redirect("shop:newsletter")
    letters = Newsletter.objects.annotate(sent=Count("delivery")).order_by("-pk")[:5]
    unfinished = any(letter.sent < letter.recipients for letter in letters)
    context = {"form": form, "letters": letters, "customers": Customer.objects.count(), "refresh": unfinished}
    return show(request, "shop/office/newsletter.html", [send_newsletter, send_letter], **context)
