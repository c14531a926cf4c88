from django.urls import path

from .views import exports, front, letters, office, orders, partners, prices, reports, sales, suppliers, transactions

app_name = "shop"
urlpatterns = [
    path("", front.products, name="products"),
    path("orders/", orders.my_orders, name="orders"),
    path("orders/<int:pk>/", orders.order, name="order"),
    path("orders/<int:pk>/invoice.pdf", orders.invoice, name="invoice"),
    path("office/", office.index, name="office"),
    path("office/newsletter/", letters.newsletter, name="newsletter"),
    path("office/report/", reports.report, name="report"),
    path("office/export/", exports.export, name="export"),
    path("office/export/<uuid:job>.csv", exports.download, name="download"),
    path("office/supplier/", suppliers.supplier, name="supplier"),
    path("office/partner/", partners.partner, name="partner"),
    path("office/recount/", sales.recount, name="recount"),
    path("office/prices/", prices.compare, name="prices"),
    path("office/transaction/", transactions.sign_up, name="transaction"),
    path("partner/", partners.their_server, name="their_server"),
]
