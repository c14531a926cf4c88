"""The PromQL of the documentation uses metrics, labels and values that are served."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
import yaml

from djqueue.contrib.prometheus import Collector
from tests.docs.pages import PAGES, ROOT, blocks
from tests.factories import JobFactory, ThroughputFactory

METRIC = re.compile(r"\bdjqueue_\w+")
MATCHER = re.compile(r'(\w+)=~?"([^"]*)"')
GROUPING = re.compile(r"\bby \(([\w, ]+)\)")
IN_A_TABLE = re.compile(r"^\|[^|]+\| `(.*djqueue_.*)` \|$", re.MULTILINE)


def in_yaml(value: object) -> Iterator[str]:
    """Yield the queries anywhere in a parsed file: alert rules have an `expr`, triggers of KEDA a `query`."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if key in ("expr", "query") and isinstance(child, str):
            yield child
        else:
            yield from in_yaml(child)


def queries() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        path = str(page.relative_to(ROOT))
        for block in blocks(page):
            if block.language == "yaml":
                yield from ((path, query) for file in yaml.safe_load_all(block.source) for query in in_yaml(file))
        if page.parent.name == "guides":  # tables of dashboards; those of the reference list names
            yield from ((path, found.replace("\\|", "|")) for found in IN_A_TABLE.findall(page.read_text()))


QUERIES = [pytest.param(query, id=f"{page}-{query[:40]}") for page, query in queries() if "djqueue_" in query]


@pytest.fixture
def served(database: str) -> dict[str, dict[str, set[str]]]:
    """The labels of each metric, and the values of each label."""
    JobFactory()
    ThroughputFactory()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in Collector().collect():
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


def test_the_documentation_has_queries():
    assert len(QUERIES) > 15


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_uses_what_is_served(served, query):
    metrics = METRIC.findall(query)
    assert set(metrics) <= set(served)
    for metric in metrics:
        labels = served[metric]
        grouped = {label for group in GROUPING.findall(query) for label in group.split(", ")}
        assert grouped <= set(labels), metric
    for metric, matchers in re.findall(r"(djqueue_\w+)\{([^}]*)\}", query):
        for label, values in MATCHER.findall(matchers):
            assert set(values.split("|")) <= served[metric][label], (metric, label)
