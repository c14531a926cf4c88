"""The Django settings of all processes of a soak test, on DATABASE_URL."""

from __future__ import annotations

import environ

DATABASES = {"default": environ.Env().db("DATABASE_URL")}
if "sqlite" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
INSTALLED_APPS = ["djqueue", "benchmarks.soak"]
USE_TZ = True
DJQUEUE = {
    "KEEP_DONE": None,  # the audit looks for every job
    "KEEP_DEAD": None,
    "LEASE": 8,
    "REAPER_INTERVAL": 1,
    "MAX_ATTEMPTS": 6,
    "BACKOFF_BASE": 0.2,
    "BACKOFF_MAX": 2,
}
