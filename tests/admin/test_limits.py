"""The list of limits, the page of a key, and what an operator can do there."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib.admin.utils import quote as admin_quote
from django.test import Client

import djqueue
from djqueue.models import Job, LimitKey
from tests.admin.tools import Cells, words
from tests.app.middleware import POLICY
from tests.factories import JobFactory, LimitKeyFactory, ago
from tests.lifecycle.limited import call_api, plain, sync
from tests.tools import rows, statements_sent

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")


def three(tenant=1):
    return [sync.enqueue(tenant) for _ in range(3)]


def row_of(boss, key: str = "tenant:1") -> dict[str, str]:
    """The texts of the columns of a key in the list."""
    found = boss.get("limitkey").context["cl"]
    [row] = [row for row in found.result_list if row.key == key]
    return {name: str(getattr(found.model_admin, name)(row)) for name in found.model_admin.list_display}


def act(person, name: str, key: str = "tenant:1", **data):
    """Confirm an action on the page of a key."""
    url = person.url("limitkey", f"{admin_quote(key)}/change/")
    return person.client.post(url, {"act": name, "confirmed": "yes", **data}, follow=True)


# The list


def test_the_list_shows_the_numbers_and_the_permits(boss):
    three()
    djqueue.maintenance.admit()
    shown = row_of(boss)
    assert shown["numbers_column"] == "2 at once"
    assert "limited.<wbr>sync" in shown["source_column"]
    assert (shown["admitted_column"], shown["state_column"], shown["rate_left_column"]) == ("2", "-", "-")
    assert ">1</a>" in shown["blocked_column"]
    link = Cells(shown["blocked_column"]).tags[0][1]["href"]
    [job] = boss.client.get(link).context["cl"].result_list
    assert (job.status, job.limit_key) == ("blocked", "tenant:1")


def test_the_list_shows_what_is_set_and_held(boss):
    three()
    djqueue.limits.set("tenant:1", concurrency=7, rate="100/m", burst=5)
    djqueue.limits.hold("tenant:1", 60)
    shown = row_of(boss)
    assert shown["numbers_column"] == "7 at once, 100/m (burst 5)"
    assert shown["source_column"] == "set here"
    assert shown["rate_left_column"] == "5"
    assert "held</span> " in shown["state_column"]


def test_the_rate_that_is_left(boss):
    for _ in range(5):
        call_api.enqueue("stripe")
    djqueue.maintenance.admit()
    rows(LimitKey).update(spent_until=ago(-0.55))
    shown = row_of(boss, "api:stripe")
    assert (shown["numbers_column"], shown["rate_left_column"]) == ("10/s (burst 3)", "0")
    djqueue.Queue("default").claim(5)
    rows(LimitKey).update(spent_until=ago(10))
    assert row_of(boss, "api:stripe")["rate_left_column"] == "3"


def test_the_numbers_of_an_unknown_task_are_not_known(boss):
    LimitKeyFactory(key="tenant:1")
    JobFactory(task="gone.task", status="blocked", limit_key="tenant:1")
    assert row_of(boss)["numbers_column"] == "not known here"


def test_a_task_without_limit_has_no_number(boss):
    LimitKeyFactory(key="shared")
    plain.using(limit_key="shared").enqueue()
    assert row_of(boss, "shared")["numbers_column"] == "no limit"


def test_jobs_are_counted_up_to_a_limit(boss, monkeypatch):
    monkeypatch.setattr("djqueue.admin.limits.MOST_COUNTED", 2)
    three()
    LimitKeyFactory(key="tenant:1")
    with statements_sent() as sent:
        boss.get("limitkey")
    assert any("LIMIT 3" in sql for sql in sent)


def test_the_list_is_filtered_and_searched(boss):
    LimitKeyFactory(key="api:a", held_until=ago(-60))
    LimitKeyFactory(key="api:b", held_until=ago(60), concurrency=3)
    LimitKeyFactory(key="tenant:1")

    def keys(**query):
        return [row.key for row in boss.get("limitkey", **query).context["cl"].result_list]

    assert keys() == ["api:a", "api:b", "tenant:1"]
    assert keys(q="api") == ["api:a", "api:b"]
    assert keys(state="held") == ["api:a"]
    assert keys(state="set") == ["api:b"]


def test_keys_of_which_nothing_is_stored_are_linked(boss):
    sync.enqueue("<new>")
    LimitKeyFactory(key="tenant:1")
    sync.enqueue(1)
    text = boss.text("limitkey")
    assert 'change/">tenant:&lt;new&gt;</a>' in text
    assert '">tenant:1</a>, ' not in text
    assert 'change/">exact</a>' in boss.text("limitkey", q="exact")
    assert "nothing is stored" not in boss.text("limitkey", q="tenant:1")


def test_there_is_no_add_and_no_delete(boss):
    LimitKeyFactory(key="tenant:1")
    assert boss.get("limitkey", "add/").status_code == 403
    assert boss.get("limitkey", "tenant:1/delete/").status_code == 403


# The page


def test_the_page_lists_holders_and_waiters(boss):
    jobs = [*three(), sync.using(priority=1).enqueue(1)]
    djqueue.maintenance.admit()
    page = boss.page("limitkey", "tenant:1")
    holders, waiters = page.context["lists"]
    held = {job.pk for job in rows(Job).filter(status="pending")}
    assert {one["job"].pk for one in holders["jobs"]} == held
    assert [one["job"].pk for one in waiters["jobs"]] == [job.id for job in jobs if job.id not in held]
    assert jobs[3].id in held
    for part in ("2 at once", "2, of which 0 claimed", "Jobs that wait for a permit, the next one first"):
        assert part in words(page)
    assert f'href="/admin/djqueue/job/{jobs[0].id}/change/"' in page.content.decode()


def test_the_page_is_bounded(boss, monkeypatch):
    monkeypatch.setattr("djqueue.admin.limits.MOST_JOBS", 2)
    for _ in range(5):
        sync.enqueue(1)
    page = boss.page("limitkey", "tenant:1")
    assert len(page.context["lists"][1]["jobs"]) == 2
    assert "Only the first 2 are listed." in words(page)


def test_claimed_jobs_are_listed_before_pending_ones(boss):
    pending = JobFactory(limit_key="k")
    claimed = JobFactory(limit_key="k", claimed=True)
    holders, _ = boss.page("limitkey", "k").context["lists"]
    assert [one["job"].pk for one in holders["jobs"]] == [claimed.pk, pending.pk]


def test_the_page_of_a_key_that_is_not_stored(boss):
    page = boss.page("limitkey", "not-used")
    assert page.status_code == 200
    assert "No job holds a permit." in words(page)
    assert not rows(LimitKey).exists()
    assert "cannot be a limit key" in words(boss.page("limitkey", "x" * 300))


def test_a_key_with_any_characters_has_a_page(boss):
    key = "a/b <i>&amp;?#_%"
    sync.using(limit_key=key).enqueue(1)
    djqueue.maintenance.admit()
    assert key in words(boss.page("limitkey", quote(admin_quote(key))))
    assert "<i>" not in boss.text("limitkey")
    act(boss, "hold", key=quote(key, safe=""), hold="1")


@pytest.mark.parametrize("model", ["limitkey"])
def test_pages_have_no_inline_scripts_or_styles(boss, model):
    three()
    djqueue.maintenance.admit()
    confirmation = boss.client.post(boss.url(model, "tenant:1/change/"), {"act": "hold"})
    for response in (boss.get(model), boss.page(model, "tenant:1"), confirmation):
        assert response.status_code == 200
        assert response.headers["Content-Security-Policy"] == POLICY
        for tag, attrs in Cells(response.content.decode()).tags:
            assert tag != "style"
            assert tag != "script" or attrs.get("src") or attrs.get("type") == "application/json"
            assert not {name for name in attrs if name == "style" or name.startswith("on")}


# Actions


def test_hold_and_release(boss):
    jobs = three()
    djqueue.maintenance.admit()
    response = act(boss, "hold", hold="5m")
    assert boss.messages(response) == ["1 held, 0 skipped."]
    assert {str(job.status()) for job in jobs} == {"blocked"}
    assert djqueue.limits.get("tenant:1").held_until is not None
    assert "held" in words(response)
    response = act(boss, "release")
    assert boss.messages(response) == ["1 released, 0 skipped."]
    assert djqueue.limits.get("tenant:1").held_until is None
    assert boss.messages(act(boss, "release")) == ["0 released, 1 skipped."]
    assert [(key, text) for key, _, text in boss.log()] == [("tenant:1", "Held for 5 min."), ("tenant:1", "Released.")]


def test_set_and_clear(boss):
    three()
    response = act(boss, "set", concurrency="3", rate="100/m", burst="")
    assert boss.messages(response) == ["1 set, 0 skipped."]
    found = djqueue.limits.get("tenant:1")
    assert (found.concurrency, found.rate, found.burst) == (3, pytest.approx(100 / 60), 1)
    form = boss.client.post(boss.url("limitkey", "tenant:1/change/"), {"act": "set"}).context["form"]
    assert form.initial == {"concurrency": 3, "rate": "100/m", "burst": 1}
    assert boss.messages(act(boss, "clear")) == ["1 cleared, 0 skipped."]
    assert djqueue.limits.get("tenant:1").concurrency == 2
    assert [text for _, _, text in boss.log()] == ["Set to 3 at once, 100/m (burst 1).", "Cleared."]
    history = words(boss.get("limitkey", "tenant:1/history/"))
    assert "Set to 3 at once, 100/m (burst 1)." in history


def test_numbers_can_be_set_before_a_key_is_used(boss):
    act(boss, "set", key="tenant:9", concurrency="3")
    assert djqueue.limits.get("tenant:9").concurrency == 3


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("hold", {"hold": "soon"}, "Enter a duration"),
        ("hold", {"hold": ""}, "This field is required"),
        ("set", {}, "a limit needs concurrency, rate or both"),
        ("set", {"concurrency": "0"}, "greater than or equal to 1"),
        ("set", {"rate": "often"}, "rate must be a number of jobs per second"),
        ("set", {"concurrency": "1", "burst": "2"}, "burst has no meaning without rate"),
    ],
)
def test_errors_are_shown_on_the_form(boss, name, data, error):
    response = act(boss, name, **data)
    assert error in words(response)
    assert not rows(LimitKey).exists()
    assert boss.log() == []


def test_an_action_asks_first(boss):
    for name in ("hold", "release", "set", "clear"):
        response = boss.client.post(boss.url("limitkey", "tenant:1/change/"), {"act": name})
        assert response.status_code == 200
        assert "tenant:1" in words(response)
    assert not rows(LimitKey).exists()
    assert boss.client.post(boss.url("limitkey", "tenant:1/change/"), {"act": "nonsense"}).status_code == 400
    assert boss.client.put(boss.url("limitkey", "tenant:1/change/")).status_code == 405


def test_keys_are_held_from_the_list(boss):
    for key in ("a", "b", "c"):
        LimitKeyFactory(key=key, concurrency=1)
    response = boss.do("limitkey", "hold", "a", "b", hold="60")
    assert boss.messages(response) == ["2 held, 0 skipped."]
    assert [row.key for row in rows(LimitKey).filter(held_until__isnull=False).order_by("key")] == ["a", "b"]
    assert boss.messages(boss.do("limitkey", "release")) == ["2 released, 1 skipped."]
    assert boss.messages(boss.do("limitkey", "clear", "c")) == ["1 cleared, 0 skipped."]
    assert sorted((key, text) for key, _, text in boss.log()) == [
        ("a", "Held for 1 min."),
        ("a", "Released."),
        ("b", "Held for 1 min."),
        ("b", "Released."),
        ("c", "Cleared."),
    ]


# Permissions


@pytest.mark.parametrize(
    ("permissions", "allowed"),
    [
        (["view_limitkey"], set()),
        (["view_limitkey", "hold_limitkey"], {"hold", "release"}),
        (["change_limitkey"], {"set", "clear"}),
        (["hold_limitkey"], None),
        (["view_job"], None),
    ],
)
def test_permissions(people, permissions, allowed):
    person = people(*permissions)
    LimitKeyFactory(key="tenant:1", held_until=ago(-60), concurrency=1)
    seen = 403 if allowed is None else 200
    assert person.get("limitkey").status_code == seen
    assert person.page("limitkey", "tenant:1").status_code == seen
    if allowed is not None:
        offered = {act.name for act in person.page("limitkey", "tenant:1").context["acts"]}
        assert offered == allowed
    data = {"hold": "60", "concurrency": "2"}
    for name in ("hold", "set", "release", "clear"):
        may = name in (allowed or ())
        assert act(person, name, **data).status_code == (200 if may else 403)
        if name != "set":
            assert person.ask("limitkey", name, "tenant:1").status_code == (200 if may else 403)


def test_a_post_needs_the_csrf_token(boss):
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss.user)
    response = client.post(boss.url("limitkey", "tenant:1/change/"), {"act": "hold", "confirmed": "yes", "hold": "9"})
    assert response.status_code == 403
    assert not rows(LimitKey).exists()


# Jobs


def test_a_job_links_to_its_limit(boss, people):
    job = sync.enqueue(1)
    page = boss.page("job", job.id)
    assert '<a href="/admin/djqueue/limitkey/tenant_3A1/change/">tenant:1</a>' in page.content.decode()
    assert "◇ blocked" in words(page)
    text = people("view_job").page("job", job.id).content.decode()
    assert "tenant:1" in text
    assert "limitkey" not in text


def test_jobs_are_listed_by_limit_key(boss):
    sync.enqueue(1)
    sync.enqueue(2)
    found = boss.get("job", limit_key__exact="tenant:2").context["cl"].result_list
    assert [job.limit_key for job in found] == ["tenant:2"]
    assert boss.get("job", limit_key__startswith="tenant").status_code == 400


def test_a_blocked_job_can_be_cancelled_and_rescheduled_but_not_run_now(boss):
    jobs = three()
    names = {act.name for act in boss.page("job", jobs[0].id).context["acts"]}
    assert names == {"cancel", "reschedule"}
    assert boss.messages(boss.do("job", "run_now", jobs[0].id)) == ["0 set to run now, 1 skipped."]
    assert boss.messages(boss.do("job", "cancel", jobs[0].id)) == ["1 cancelled, 0 asked to stop, 0 skipped."]
    boss.do("job", "reschedule", jobs[1].id, priority="5", run_at_0="", run_at_1="")
    assert jobs[1].job().priority == 5
    assert str(jobs[1].status()) == "blocked"


def test_a_blocked_job_that_waits_for_long_is_late(boss):
    job = JobFactory(status="blocked", limit_key="k", run_at=ago(120), enqueued_at=ago(120))
    JobFactory(status="blocked", limit_key="k")
    assert [one.pk for one in boss.get("job", late="minute").context["cl"].result_list] == [job.pk]
