"""Search by id, task name and argument."""

from __future__ import annotations

import pytest

from djqueue.admin import search
from tests.admin.tools import words
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ago

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")


def found(person, query: str, model: str = "job", **filters) -> list[object]:
    return [row.pk for row in person.get(model, q=query, **filters).context["cl"].result_list]


def test_search_by_id(boss):
    job = JobFactory()
    JobFactory()
    assert found(boss, str(job.pk)) == [job.pk]
    assert found(boss, job.pk.hex) == [job.pk]


def test_search_by_id_links_to_the_table_of_the_job(boss):
    job = DoneJobFactory()
    response = boss.get("job", q=str(job.pk))
    assert "is in the list of done jobs" in words(response)
    assert f"/admin/djqueue/donejob/{job.pk}/change/" in response.content.decode()


def test_search_by_task_name(boss):
    add, charge, lost = JobFactory(), JobFactory(task="shop.charge"), JobFactory(task="gone.away")
    assert found(boss, "CHARGE") == [charge.pk]
    assert found(boss, "tests.app.tasks.add") == [add.pk]
    response = boss.get("job", q="gone.away")
    assert [row.pk for row in response.context["cl"].result_list] == [lost.pk]
    assert "No registered task or queue has “gone.away” in its name." in words(response)


@pytest.mark.parametrize("model", ["job", "deadjob", "donejob"])
def test_search_by_argument(boss, model):
    make = {"job": JobFactory, "deadjob": DeadJobFactory, "donejob": DoneJobFactory}[model]
    named = make(task="shop.charge", args=[], kwargs={"order": 42})
    positional = make(task="shop.charge", args=[42])
    text = make(task="shop.charge", args=["42"])
    make(task="shop.charge", args=[142])
    make(task="shop.charge", args=[1], kwargs={"other": 42})
    make(task="tests.app.tasks.add", args=[42])
    assert set(found(boss, "order:42", model)) == {named.pk, positional.pk, text.pk}
    assert "searched in the newest 50,000" in words(boss.get(model, q="order:42"))


def test_search_by_several_terms_and_filters(boss):
    one = JobFactory(args=[1], kwargs={"b": 2}, queue="x")
    JobFactory(args=[1], kwargs={"b": 3}, queue="x")
    JobFactory(args=[1], kwargs={"b": 2}, queue="y")
    assert found(boss, "a:1 b:2 tasks.add", queue="x") == [one.pk]


@pytest.mark.parametrize(
    "value", ["New York", "a:b", "it's", 'say "hi"', "back\\slash", "Ünïcode", "100%", "a_b", "true"]
)
def test_search_by_string_values(boss, value):
    job = JobFactory(args=[value])
    JobFactory(args=["other"])
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert found(boss, f'a:"{quoted}"') == [job.pk]


@pytest.mark.parametrize("value", [True, None, 1.5, [1, 2], {"x": 1}])
def test_search_by_values_that_are_not_strings(boss, value):
    import json

    job = JobFactory(args=[value])
    JobFactory(args=["other"])
    text = json.dumps(value, separators=(",", ":")) if isinstance(value, bool | None | float) else json.dumps(value)
    quoted = text.replace('"', '\\"')
    expected = [job.pk] if isinstance(value, bool | None | float) else []
    assert found(boss, f'a:"{quoted}"') == expected


def test_search_does_not_find_masked_values(boss):
    """Searching would otherwise reveal masked values letter by letter."""
    job = JobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    assert found(boss, "password:hunter2") == []
    assert found(boss, "user:ada") == [job.pk]


def test_arguments_of_an_unknown_task_are_not_found(boss):
    JobFactory(task="gone.away", args=["hunter2"], kwargs={"password": "hunter2"})
    for name in ("password", "args[0]", ""):
        assert found(boss, f"{name}:hunter2") == []


@pytest.mark.parametrize("query", [":", "order:", ":42", "a:\x00", "'", '"', "a:'", "\\", "((", "%", "a" * 5000])
def test_invalid_search_terms_cause_no_error(boss, query):
    JobFactory()
    for model in ("job", "deadjob", "donejob", "kv"):
        assert boss.get(model, q=query).status_code == 200


def test_incomplete_term_results_in_a_hint(boss):
    assert "Search for an argument as name:value" in words(boss.get("job", q="order:"))


def test_argument_search_reads_only_the_newest_jobs(boss, monkeypatch):
    monkeypatch.setattr(search, "WINDOW", 6)
    monkeypatch.setattr(search, "STEP", 2)
    jobs = [JobFactory(args=[7]) for _ in range(9)]
    assert found(boss, "a:7") == [job.pk for job in reversed(jobs[3:])]
    monkeypatch.setattr(search, "MOST", 2)
    assert found(boss, "a:7") == [job.pk for job in reversed(jobs[7:])]


def test_action_on_search_results(boss):
    for number in (1, 1, 2):
        DeadJobFactory(args=[number])
    response = boss.do("deadjob", "delete", query={"q": "a:1"})
    assert boss.messages(response) == ["2 deleted, 0 skipped."]


def test_search_kv_by_key_prefix(boss):
    from tests.factories import KVFactory

    KVFactory(key="runs/1")
    KVFactory(key="other")
    assert [row.key for row in boss.get("kv", q="runs/").context["cl"].result_list] == ["runs/1"]


def test_search_by_queue_name(boss):
    job = JobFactory(queue="Mail-out")
    JobFactory(queue="other")
    assert found(boss, "mail") == [job.pk]
    both = JobFactory(task="shop.charge", queue="other")
    named = JobFactory(queue="charges")
    assert set(found(boss, "charge")) == {both.pk, named.pk}


@pytest.mark.parametrize("model", ["job", "deadjob", "donejob"])
def test_search_by_error(boss, model):
    make = {"job": JobFactory, "deadjob": DeadJobFactory, "donejob": DoneJobFactory}[model]
    job = make(last_error="order 42: Card declined by Ärztebank, 100%")
    make(last_error="no answer")
    make()
    for query in ("DECLINED", "declined order", "error:declined", '"42: card"', "Ärztebank", '"100%"', "error:order"):
        assert found(boss, query, model) == [job.pk], query
    for query in ("declined answer", "error:refused", "1_0%"):
        assert found(boss, query, model) == [], query
    assert "searched in the newest 50,000" in words(boss.get(model, q="declined"))


def test_search_by_task_that_is_not_registered_and_error(boss):
    job = DeadJobFactory(task="gone.away", last_error="no answer")
    DeadJobFactory(task="gone.away", last_error="declined")
    DeadJobFactory(last_error="no answer")
    assert found(boss, "gone.away answer", "deadjob") == [job.pk]


def test_search_by_error_keeps_an_argument_of_that_name(boss):
    job = JobFactory(kwargs={"error": "E7"})
    assert found(boss, "error:E7") == [job.pk]


def test_search_does_not_find_masked_values_in_errors(boss):
    DeadJobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"], last_error="bad password hunter2")
    assert found(boss, "hunter2", "deadjob") == []
    assert found(boss, "error:hunter2", "deadjob") == []
    assert len(found(boss, "password", "deadjob")) == 1


def test_error_search_reads_only_the_newest_jobs(boss, monkeypatch):
    monkeypatch.setattr(search, "WINDOW", 6)
    monkeypatch.setattr(search, "STEP", 2)
    jobs = [JobFactory(last_error="boom") for _ in range(9)]
    assert found(boss, "boom") == [job.pk for job in reversed(jobs[3:])]


def test_search_reads_the_newest_jobs_however_the_list_is_sorted(boss, monkeypatch):
    monkeypatch.setattr(search, "WINDOW", 2)
    monkeypatch.setattr(search, "STEP", 2)
    jobs = [DeadJobFactory(last_error="boom", failed_at=ago(seconds)) for seconds in (10, 20, 30)]
    assert found(boss, "boom", "deadjob", o="3") == [jobs[1].pk, jobs[0].pk]
