"""A missing extra is named, with the command that installs it."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(("module", "package"), [("otel", "opentelemetry"), ("prometheus", "prometheus_client")])
def test_a_missing_extra_is_named(monkeypatch, module, package):
    name = f"djqueue.contrib.{module}"
    for loaded in [key for key in sys.modules if key == name or key.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"^{name} requires .*: pip install 'django-djqueue\[{module}\]'\.$"):
        importlib.import_module(name)
