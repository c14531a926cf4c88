"""The broken variants, one module per subject."""

from __future__ import annotations

from . import (
    admin,
    claims,
    control,
    dedup,
    limits,
    masking,
    notify,
    payloads,
    reaping,
    schedules,
    settling,
    tokens,
    visitors,
    worker,
)

VARIANTS = [
    *tokens.VARIANTS,
    *settling.VARIANTS,
    *reaping.VARIANTS,
    *claims.VARIANTS,
    *dedup.VARIANTS,
    *control.VARIANTS,
    *notify.VARIANTS,
    *limits.VARIANTS,
    *schedules.VARIANTS,
    *worker.VARIANTS,
    *payloads.VARIANTS,
    *masking.VARIANTS,
    *admin.VARIANTS,
    *visitors.VARIANTS,
]
