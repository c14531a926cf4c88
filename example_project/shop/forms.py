from django import forms

from .models import Card, Product


class OrderForm(forms.Form):
    product = forms.ModelChoiceField(Product.objects.all())
    quantity = forms.IntegerField(min_value=1, max_value=20)
    email = forms.EmailField()
    card = forms.ChoiceField(choices=Card.choices)


class LetterForm(forms.Form):
    subject = forms.CharField(max_length=100, initial="New tea has arrived")
