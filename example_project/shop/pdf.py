"""A PDF with lines of text on one page, written by hand."""

from __future__ import annotations

from .models import Order

PAGE = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>"
FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def invoice_lines(order: Order) -> list[str]:
    return [
        f"Invoice {order.pk:05}",
        f"{order.placed_at:%d %B %Y}",
        order.email,
        f"{order.quantity} x {order.product.name}",
        f"Total: {order.total} €",
        "Thank you for your order.",
    ]


def document(lines: list[str]) -> bytes:
    """Return a PDF with these lines, the first one as its heading."""
    heading, *rest = [line.encode("cp1252", "replace") for line in lines]
    text = b"BT /F1 22 Tf 60 760 Td (%s) Tj /F1 12 Tf 0 -20 Td " % _escaped(heading)
    text += b"".join(b"0 -22 Td (%s) Tj " % _escaped(line) for line in rest) + b"ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        PAGE.encode(),
        FONT.encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
