"""The handler of a worker whose project has configured none writes the lines of a group at once."""

from __future__ import annotations

import io
import logging

from djqueue.core.log import LineHandler, SafeLogger


def test_a_name_that_the_stream_cannot_write_does_not_hide_the_other_lines(capsys):
    written = io.BytesIO()
    logger = logging.Logger("djqueue", logging.INFO)
    logger.addHandler(LineHandler(io.TextIOWrapper(written, encoding="ascii", write_through=True)))
    SafeLogger(logger).info_all("done queue=%s", [("mail",), ("päckchen",), ("reports",)])
    found = [line.partition("INFO ")[2] for line in written.getvalue().decode().splitlines()]
    assert found == ["done queue=mail", "done queue=reports"]
    assert "UnicodeEncodeError" in capsys.readouterr().err
