"""Keeps the leases of everything in hand, in one statement, and learns what was lost and what should be cancelled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from djqueue.current import Holding
from djqueue.records import Renew
from djqueue.sql import statements

logger = logging.getLogger("djqueue")

# Cancel requests reach a running task within a second.
INTERVAL = 0.5


class Leases:
    """What this process holds, by job; a thread renews it until it is settled."""

    def __init__(self, cancelled: Callable[[Holding], None]) -> None:
        self.cancelled = cancelled
        self.held: dict[UUID, Holding] = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="djqueue-leases", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()

    def hold(self, holding: Holding) -> None:
        with self.lock:
            self.held[holding.job.id] = holding

    def let_go(self, holding: Holding) -> None:
        with self.lock:
            if self.held.get(holding.job.id) is holding:
                del self.held[holding.job.id]

    def _run(self) -> None:
        try:
            while not self.stopping.wait(INTERVAL):
                self._turn()
        finally:
            connections.close_all()

    def _turn(self) -> None:
        with self.lock:
            holdings = [holding for holding in self.held.values() if not holding.lost]
        if not holdings:
            return
        try:
            self._renew(holdings)
        except (DatabaseError, InterfaceError) as error:
            # The leases are longer than an outage that is worth hiding; the next turn tries again.
            logger.warning("renewing %d leases failed error=%s", len(holdings), error)
            connections.close_all()

    def _renew(self, holdings: list[Holding]) -> None:
        progress = [holding.progress for holding in holdings]
        answers = statements().renew(
            [
                Renew(
                    id=holding.job.id,
                    token=holding.job.token,
                    lease=holding.job.lease,
                    started=holding.started or None,
                    progress=text,
                )
                for holding, text in zip(holdings, progress, strict=True)
            ],
            wait=False,
        )
        for holding, text, answer in zip(holdings, progress, answers, strict=True):
            if answer is None:
                continue  # locked by somebody: the next turn tries again
            if holding.progress is text:
                holding.progress = None
            if answer.expires_at is None:
                self._lose(holding)
            elif answer.cancel_requested and not holding.cancel_requested:
                holding.cancel_requested = True
                self.cancelled(holding)

    def _lose(self, holding: Holding) -> None:
        if holding.reported:
            return  # it may have been settled while we asked; the completer will know
        holding.lost = True
        logger.warning("lease lost job=%s task=%s queue=%s", holding.job.id, holding.job.task, holding.job.queue)
