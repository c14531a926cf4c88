"""The web server of the demo: Django's own, with a shorter log."""

from __future__ import annotations

import errno
import logging
from argparse import ArgumentParser
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management.base import BaseCommand
from django.core.servers import basehttp

from djqueue.admin.overview import page, snapshot
from example_project.demo.ports import HOST, candidates

# Requests that pages repeat by themselves, or make for their looks.
QUIET = ("/static/", "/djqueue/", "/admin/jsi18n/", "/admin/djqueue/overview/")


LISTENING = "listening on port "


class Command(BaseCommand):
    help = "Serve the shop on this port of this machine, or on another one if it is taken."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("port", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        application = StaticFilesHandler(basehttp.get_internal_wsgi_application())  # sets up logging once more
        shorten_log()
        refresh_often()
        for port in candidates(options["port"]):
            try:
                basehttp.run(HOST, port, application, threading=True, on_bind=self.announce)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise

    def announce(self, port: int | str) -> None:
        """Tell the demo, which has to know."""
        self.stdout.write(f"{LISTENING}{port}")
        self.stdout.flush()


def refresh_often() -> None:
    """Let the overview move. Its figures are kept longer on a real site, where many people may have it open."""
    page.REFRESH = 3
    snapshot.SNAPSHOT.times = snapshot.WORKERS.times = 20


def shorten_log() -> None:
    logger = logging.getLogger("django.server")
    logger.addFilter(is_shown)
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter("%(message)s"))
    # An answer such as 503 has a line already; an exception has not.
    logging.getLogger("django.request").addFilter(lambda record: record.exc_info is not None)


def is_shown(record: logging.LogRecord) -> bool:
    """Shorten the line of a request. Hide the requests that nobody has made by hand, unless they fail."""
    if not record.args or not isinstance(record.args, tuple) or len(record.args) != 3:
        return record.levelno >= logging.WARNING
    request, status, _ = map(str, record.args)
    method, _, rest = request.partition(" ")
    path = rest.partition(" HTTP/")[0]
    record.msg, record.args = f"{method} {path} {status}", ()
    return int(status) >= 500 or not path.startswith(QUIET)
