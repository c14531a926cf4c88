"""The progress of one job for visitors: signed URLs, the cancel, and the template tag."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import Signer
from django.db import transaction
from django.template import Context, Engine, Template
from django.template.context import RequestContext
from django.test import AsyncClient, Client, RequestFactory
from django.urls import resolve

from djqueue import progress
from djqueue.exceptions import InvalidOption
from djqueue.models import DoneJob, Job
from djqueue.progress import tokens, views
from tests.admin.tools import Cells
from tests.app.tasks import add, pay
from tests.conftest import PLAIN
from tests.contrib.django_tasks import tasks as django_tasks
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.tools import claim_one, live, places, rows, statements_sent

pytestmark = pytest.mark.databases(*PLAIN)
HOSTILE = """</template><script>alert(1)</script>"'{{ job }}&"""
urlpatterns: list[object] = []  # of a project that has not included djqueue.urls


@pytest.fixture
def client(database) -> Client:
    return Client(enforce_csrf_checks=True)


def read(client: Client, job: object) -> dict:
    return client.get(progress.status_url(job)).json()


class Page(Cells):
    """The tags of a page, and the texts that a browser shows: without those in template elements."""

    inert = False

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        self.inert = self.inert or tag == "template"

    def handle_endtag(self, tag):
        self.inert = self.inert and tag != "template"

    def handle_data(self, data):
        if not self.inert:
            super().handle_data(data)


def page(source: str, *, request: object = True, **context: object) -> Page:
    """Render a template that has loaded the tags, and parse it."""
    template = Template("{% load djqueue %}" + source)
    if request is True:
        request = RequestFactory().get("/orders/7/?tab=2")
    made = Context(context) if request is None else RequestContext(request, context)
    return Page(template.render(made))


def bar(tag: str = "djqueue_progress job", **context: object) -> Page:
    return page("{% " + tag + " %}", **context)


def the(cells: Page, tag: str) -> dict:
    [attributes] = [attributes for name, attributes in cells.tags if name == tag]
    return attributes


def tags(cells: Page) -> Counter[str]:
    return Counter(tag for tag, _ in cells.tags)


# The status


def test_a_job_is_followed_from_its_enqueue_to_its_end(client):
    handle = add.enqueue(1, 2)
    assert read(client, handle) == {
        "status": "pending",
        "finished": False,
        "cancel_requested": False,
        "percent": 0,
        "progress": None,
    }
    job = claim_one()
    assert (read(client, handle)["status"], read(client, handle)["percent"]) == ("claimed", None)
    job.progress(3, 8, "Invoices")
    assert read(client, handle)["progress"] == {"done": 3, "total": 8, "message": "Invoices"}
    assert read(client, handle)["percent"] == 38
    handle.cancel()
    assert read(client, handle)["cancel_requested"] is True
    job.ack()
    found = read(client, handle)
    assert (found["status"], found["finished"], found["percent"]) == ("done", True, 100)


@pytest.mark.parametrize(
    ("factory", "status", "finished"),
    [
        (lambda: JobFactory(scheduled=True), "scheduled", False),
        (lambda: JobFactory(status="blocked", limit_key="k"), "blocked", False),
        (lambda: DoneJobFactory(cancelled=True), "cancelled", True),
        (lambda: DeadJobFactory(), "dead", True),
    ],
)
def test_other_states(client, factory, status, finished):
    found = read(client, factory())
    assert (found["status"], found["finished"]) == (status, finished)


def test_a_job_that_is_not_kept_is_unknown_and_finished(client, configure):
    configure(KEEP_DONE=0)
    handle = add.enqueue(1)
    claim_one().ack()
    assert places(handle.id) == []
    found = read(client, handle)
    assert (found["status"], found["finished"]) == ("unknown", True)


def test_a_job_that_never_existed_is_unknown(client):
    assert read(client, uuid4())["status"] == "unknown"


def test_arguments_errors_and_result_are_not_shown(client):
    handle = pay.enqueue(7, card="4111-secret")
    rows(Job).update(last_error="secret", errors=[{"message": "secret"}], headers={"key": "secret"})
    shown = [read(client, handle), bar(job=handle).texts]
    done = DoneJobFactory(result="secret", args=["secret"], kwargs={"a": "secret"})
    dead = DeadJobFactory(last_error="secret", errors=[{"message": "secret", "traceback": "secret"}])
    shown += [read(client, done), bar(job=done).texts, read(client, dead), bar(job=dead).texts]
    assert "secret" not in json.dumps(shown)


def test_a_poll_is_one_query_and_does_not_read_arguments(client):
    handle = add.enqueue(1)
    url = progress.status_url(handle)
    with statements_sent() as sent:
        client.get(url)
    [sql] = sent
    assert "args" not in sql
    assert "result" not in sql


def test_a_bar_needs_one_query_and_none_with_a_record(client):
    handle = add.enqueue(1)
    with statements_sent() as sent:
        bar(job=handle)
        bar(job=str(handle.id))
    assert len(sent) == 2
    record, row = handle.job(), live(handle.id)
    with statements_sent() as sent:
        bar(job=record)
        bar(job=row)
    assert sent == []


@pytest.mark.parametrize(
    ("stored", "percent", "shown"),
    [
        ({"done": 12, "total": 10, "message": ""}, 100, {"done": 10, "total": 10, "message": ""}),
        ({"done": 0, "total": 0, "message": "Counting"}, None, {"done": None, "total": None, "message": "Counting"}),
        ({"done": 10**400, "total": 5}, None, None),
        ({"done": "1", "total": None}, None, None),
        (["nonsense"], None, None),
        ("nonsense", None, None),
    ],
)
def test_odd_progress(client, stored, percent, shown):
    job = JobFactory(claimed=True, progress=stored)
    found = read(client, job)
    assert (found["percent"], found["progress"]) == (percent, shown)


def test_a_status_is_read_from_whatever_stands_for_a_job(database):
    handle = add.enqueue(1)
    row = live(handle.id)
    for job in (handle, handle.id, str(handle.id), handle.id.hex, handle.job(), row):
        assert progress.status(job)["status"] == "pending"
        assert tokens.read(resolve(progress.status_url(job)).kwargs["token"], tokens.STATUS) == handle.id
    assert progress.status(claim_one())["status"] == "claimed"
    assert progress.status(DoneJobFactory())["status"] == "done"
    assert progress.status(DeadJobFactory())["status"] == "dead"


def test_a_result_of_django_tasks_stands_for_its_job(database):
    result = django_tasks.noop.enqueue()
    assert progress.status(result)["status"] == "pending"
    assert tokens.read(token_of(progress.status_url(result)), tokens.STATUS) == UUID(result.id)


@pytest.mark.parametrize("job", [None, "", "7", 7, object()])
def test_what_is_not_a_job_is_named(database, job):
    for function in (progress.status, progress.status_url, progress.cancel_url):
        with pytest.raises(InvalidOption, match="id must be a UUID, got"):
            function(job)
    with pytest.raises(InvalidOption, match="id must be a UUID, got"):
        bar(job=job)


def test_a_job_that_is_enqueued_on_commit_waits(database):
    with transaction.atomic(using=database):
        handle = add.using(on_commit=True).enqueue(1)
        assert handle.created is None
        assert progress.status(handle)["status"] == "pending"
        assert not progress.status(handle)["finished"]


def test_the_status_is_read_only_and_never_cached(client):
    url = progress.status_url(add.enqueue(1))
    assert "no-store" in client.get(url)["Cache-Control"]
    for method in ("post", "put", "patch", "delete"):
        assert getattr(Client(), method)(url).status_code == 405


def test_visitors_need_no_login_and_the_views_no_transaction():
    for view in (views.status, views.cancel):
        assert not view.login_required
        assert "default" in view._non_atomic_requests


def test_the_status_is_served_without_a_login(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert read(client, add.enqueue(1))["status"] == "pending"


def test_an_async_server_serves_the_status(client):
    handle = add.enqueue(1)

    async def get() -> dict:
        return (await AsyncClient().get(progress.status_url(handle))).json()

    assert async_to_sync(get)()["status"] == "pending"


# Signatures


def token_of(url: str) -> str:
    return resolve(url).kwargs["token"]


def test_a_changed_token_is_not_found(client):
    token = token_of(progress.status_url(add.enqueue(1)))
    job, expires, signature = token.split(".")
    other = token_of(progress.status_url(add.enqueue(2)))
    forged = [
        ".".join([other.split(".")[0], expires, signature]),
        ".".join([job, str(int(expires) + 1), signature]),
        ".".join([job, expires, signature[:-2] + ("AA" if signature[-2:] != "AA" else "BB")]),
        ".".join([job, expires, ""]),
        f"{job}.{expires}",
        job,
        "é.é.é",
        "%00",
        Signer(sep=".").sign(f"{job}.{expires}"),
        Signer(key="another", salt="djqueue.progress.status", sep=".").sign(f"{job}.{expires}"),
    ]
    assert [client.get(f"/djqueue/progress/{one}/").status_code for one in forged] == [404] * len(forged)
    assert client.get(f"/djqueue/progress/{token}/").status_code == 200


def test_a_token_expires(client, monkeypatch):
    handle = add.enqueue(1)
    day, hour = progress.status_url(handle), progress.status_url(handle, max_age=timedelta(hours=1))
    start = time.time()
    monkeypatch.setattr("djqueue.progress.tokens.time.time", lambda: start + 3500)
    assert [client.get(url).status_code for url in (day, hour)] == [200, 200]
    monkeypatch.setattr("djqueue.progress.tokens.time.time", lambda: start + 3700)
    assert [client.get(url).status_code for url in (day, hour)] == [200, 404]
    monkeypatch.setattr("djqueue.progress.tokens.time.time", lambda: start + 86500)
    assert [client.get(url).status_code for url in (day, hour)] == [404, 404]


def test_a_token_expires_at_once_with_no_age(database):
    assert tokens.read(tokens.sign(uuid4(), tokens.STATUS, 0), tokens.STATUS) is None


@pytest.mark.parametrize("max_age", [-1, "60", None])
def test_the_age_is_checked(database, max_age):
    with pytest.raises(InvalidOption, match="max_age must be"):
        progress.status_url(uuid4(), max_age=max_age)


def test_a_token_survives_a_change_of_the_secret_key(client, settings):
    url = progress.status_url(add.enqueue(1))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    assert client.get(url).status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert client.get(url).status_code == 404


def test_with_a_request_the_urls_are_absolute(database):
    request, job = RequestFactory().get("/"), uuid4()
    assert progress.status_url(job, request).startswith(f"http://testserver/djqueue/progress/{job.hex}.")
    assert progress.cancel_url(job, request).endswith("/cancel/")
    assert progress.cancel_url(job).startswith("/djqueue/progress/")


# The cancel


class Visitor(Client):
    """A browser that has the CSRF cookie and sends its token."""

    def __init__(self) -> None:
        super().__init__(enforce_csrf_checks=True)
        self.token = "a" * 32
        self.cookies["csrftoken"] = self.token

    def press(self, url: str, **data: str):
        return self.post(url, {"csrfmiddlewaretoken": self.token, **data})


def test_a_waiting_job_is_cancelled(database):
    handle = add.enqueue(1)
    answer = Visitor().press(progress.cancel_url(handle))
    assert (answer.json()["status"], answer.json()["finished"]) == ("cancelled", True)
    assert "no-store" in answer["Cache-Control"]
    assert handle.status() == "cancelled"


def test_a_running_job_is_asked_to_stop(database):
    handle = add.enqueue(1)
    claim_one()
    answer = Visitor().press(progress.cancel_url(handle)).json()
    assert (answer["status"], answer["finished"], answer["cancel_requested"]) == ("claimed", False, True)
    assert live(handle.id).cancel_requested


def test_a_cancel_of_a_finished_job_changes_nothing(database):
    job = DoneJobFactory()
    assert Visitor().press(progress.cancel_url(job)).json()["status"] == "done"
    assert rows(DoneJob).get(pk=job.pk).status == "done"


def test_a_cancelled_job_that_is_not_kept_is_cancelled_all_the_same(configure):
    configure(KEEP_DONE=0)
    assert Visitor().press(progress.cancel_url(add.enqueue(1))).json()["status"] == "cancelled"


def test_a_cancel_needs_its_own_signature_and_a_post(database):
    handle = add.enqueue(1)
    status, cancel = progress.status_url(handle), progress.cancel_url(handle)
    visitor = Visitor()
    assert visitor.press(f"{status}cancel/").status_code == 404
    assert visitor.get(cancel).status_code == 405
    assert visitor.get(cancel.removesuffix("cancel/")).status_code == 404
    assert handle.status() == "pending"


def test_an_expired_signature_cancels_nothing(database):
    handle = add.enqueue(1)
    assert Visitor().press(progress.cancel_url(handle, max_age=0)).status_code == 404
    assert handle.status() == "pending"


@pytest.mark.parametrize("middleware", [True, False], ids=["middleware", "without"])
def test_a_cancel_needs_the_csrf_token(client, settings, middleware):
    if not middleware:
        settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if "csrf" not in one]
    handle = add.enqueue(1)
    assert client.post(progress.cancel_url(handle)).status_code == 403
    visitor = Visitor()
    visitor.token = "b" * 32
    assert visitor.press(progress.cancel_url(handle)).status_code == 403
    assert handle.status() == "pending"


@pytest.mark.parametrize("target", ["/orders/7/?tab=2", "http://testserver/orders/", "orders"])
def test_after_a_cancel_the_visitor_returns_to_the_page(database, target):
    answer = Visitor().press(progress.cancel_url(add.enqueue(1)), next=target)
    assert (answer.status_code, answer["Location"]) == (302, target)


@pytest.mark.parametrize(
    "target", ["//evil.example/", "https://evil.example/", "javascript:alert(1)", "/\\evil.example", "", "http:///x"]
)
def test_a_cancel_does_not_redirect_to_other_sites(database, target):
    handle = add.enqueue(1)
    answer = Visitor().press(progress.cancel_url(handle), next=target)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


# The tag


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (lambda: JobFactory(scheduled=True), "Waiting…"),
        (lambda: JobFactory(status="blocked", limit_key="k"), "Waiting…"),
        (lambda: JobFactory(), "Waiting…"),
        (lambda: JobFactory(claimed=True), "In progress…"),
        (lambda: JobFactory(claimed=True, cancel_requested=True), "Stopping…"),
        (lambda: DoneJobFactory(cancel_requested=True), "Done."),
        (lambda: DoneJobFactory(cancelled=True), "Cancelled."),
        (lambda: DeadJobFactory(), "Failed."),
        (lambda: uuid4(), "Not found. It may have finished some time ago."),
    ],
)
def test_the_state_is_said_in_words(database, factory, text):
    assert text in bar(job=factory()).texts


def test_the_bar_shows_what_the_job_reported(database):
    job = JobFactory(claimed=True, progress={"done": 1, "total": 4, "message": "Invoices"})
    cells = bar(job=job)
    assert the(cells, "progress")["value"] == "25"
    assert {"25%", "Invoices"} <= set(cells.texts)
    finished = bar(job=DoneJobFactory(progress={"done": 1, "total": 4, "message": "Invoices"}))
    assert the(finished, "progress")["value"] == "100"
    assert not {"25%", "Invoices"} & set(finished.texts)
    assert "value" not in the(bar(job=JobFactory(claimed=True)), "progress")  # unknown, not 0


def test_markup_in_messages_and_labels_is_escaped(database):
    job = JobFactory(claimed=True, progress={"done": 1, "total": 4, "message": HOSTILE})
    cells = bar("djqueue_progress job label=text done_url=text cancel=True", job=job, text=HOSTILE)
    assert cells.texts.count(HOSTILE) == 2
    assert the(cells, "progress")["aria-label"] == HOSTILE
    assert next_link(cells) == (HOSTILE, "hidden")
    assert len([tag for tag, _ in cells.tags if tag == "script"]) == 1


def test_nothing_is_inline(database):
    cells = bar("djqueue_progress job cancel=True done_url='/x/' redirect=True label='Export'", job=add.enqueue(1))
    assert "style" not in {tag for tag, _ in cells.tags}
    assert "src" in the(cells, "script")
    assert not [name for _, attrs in cells.tags for name in attrs if name == "style" or name.startswith("on")]


def test_two_bars_load_the_script_once(database):
    job = add.enqueue(1)
    cells = page("{% djqueue_progress job %}{% for i in 'ab' %}{% djqueue_progress job %}{% endfor %}", job=job)
    assert tags(cells)["djqueue-progress"] == 3
    assert (tags(cells)["script"], tags(cells)["link"]) == (1, 1)


def test_the_script_can_be_loaded_elsewhere(database):
    cells = page("<head>{% djqueue_progress_media %}</head>{% djqueue_progress job %}", job=add.enqueue(1))
    assert [tag for tag, _ in cells.tags][:4] == ["head", "link", "script", "djqueue-progress"]
    assert tags(cells)["script"] == 1


def test_a_page_without_a_request_can_show_bars(database):
    cells = page("{% djqueue_progress job %}{% djqueue_progress job %}", job=add.enqueue(1), request=None)
    assert tags(cells)["djqueue-progress"] == tags(cells)["script"] == 2


class LazyNonce:
    """A nonce that is false until it is used, as Django's is."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "n0nce"


def test_script_and_stylesheet_have_the_nonce_of_the_page(database):
    cells = bar(job=add.enqueue(1), csp_nonce=LazyNonce())
    assert the(cells, "script")["nonce"] == the(cells, "link")["nonce"] == "n0nce"
    request = RequestFactory().get("/")
    request.csp_nonce = LazyNonce()  # of django-csp
    assert the(bar(job=add.enqueue(1), request=request), "script")["nonce"] == "n0nce"
    assert "nonce" not in the(bar(job=add.enqueue(1)), "script")


def test_the_link_appears_when_the_job_is_done(database):
    tag = "djqueue_progress job done_url='/invoices/7/'"
    assert next_link(bar(tag, job=add.enqueue(1))) == ("/invoices/7/", "hidden")
    assert next_link(bar(tag, job=DoneJobFactory())) == ("/invoices/7/", "shown")
    assert next_link(bar(tag, job=DeadJobFactory())) == ("/invoices/7/", "hidden")
    assert next_link(bar(job=DoneJobFactory())) is None


def next_link(cells: Page) -> tuple[str | None, str] | None:
    for _, attrs in cells.tags:
        if attrs.get("data-part") == "next":
            return attrs["href"], "hidden" if "hidden" in attrs else "shown"
    return None


def test_a_redirect_needs_a_place_to_go(database):
    with pytest.raises(InvalidOption, match="redirect=True requires done_url"):
        bar("djqueue_progress job redirect=True", job=add.enqueue(1))


def test_the_button_is_a_form_that_returns_to_its_page(database, client):
    handle = add.enqueue(1)
    cells = bar("djqueue_progress job cancel=True", job=handle)
    form, fields = the(cells, "form"), {a["name"]: a["value"] for tag, a in cells.tags if tag == "input"}
    client.cookies["csrftoken"] = "a" * 32
    answer = client.post(form["action"], fields | {"csrfmiddlewaretoken": "a" * 32})
    assert answer["Location"] == "/orders/7/?tab=2"
    assert handle.status() == "cancelled"
    assert len(fields["csrfmiddlewaretoken"]) == 64


def test_there_is_no_button_where_it_would_do_nothing(database):
    tag = "djqueue_progress job cancel=True"
    assert "form" not in tags(bar(job=add.enqueue(1)))
    assert "form" not in tags(bar(tag, job=DoneJobFactory()))
    assert "hidden" in the(bar(tag, job=JobFactory(claimed=True, cancel_requested=True)), "form")


def test_a_bar_without_a_button_sets_no_cookie(database):
    request = RequestFactory().get("/")
    bar(job=add.enqueue(1), request=request)
    assert "CSRF_COOKIE" not in request.META


def test_a_button_needs_the_request(database):
    with pytest.raises(ImproperlyConfigured, match=r"render\(request, ...\)"):
        bar("djqueue_progress job cancel=True", job=add.enqueue(1), request=None)


def test_a_project_without_the_urls_is_told_the_line_to_add(database, settings):
    settings.ROOT_URLCONF = "tests.test_progress"
    with pytest.raises(ImproperlyConfigured) as raised:
        bar(job=add.enqueue(1))
    assert str(raised.value) == (
        "The progress of jobs needs the URLs of djqueue, which tests.test_progress does not include. Add this line to "
        'its urlpatterns: path("djqueue/", include("djqueue.urls")),'
    )


def test_a_project_can_say_it_differently(database, settings):
    own = {"djqueue/progress_text.html": "{% if text == 'done' %}Enjoy your meal{% endif %}"}
    loaders = [("django.template.loaders.locmem.Loader", own), "django.template.loaders.app_directories.Loader"]
    libraries = {name: f"django.templatetags.{name}" for name in ("i18n", "static")}
    engine = Engine(loaders=loaders, libraries={"djqueue": "djqueue.templatetags.djqueue", **libraries})
    template = engine.from_string("{% load djqueue %}{% djqueue_progress job %}")
    assert Page(template.render(Context({"job": DoneJobFactory()}))).texts[0] == "Enjoy your meal"
