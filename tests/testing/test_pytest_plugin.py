"""The fixtures in the project of a user: found by their entry point, and harmless without Django."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.plugin import run_pytest

PROJECT = {
    "settings.py": """
        SECRET_KEY = "x"
        USE_TZ = True
        INSTALLED_APPS = ["django.contrib.contenttypes", "djqueue", "shop"]
        DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
        DATABASES = {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"},
            "jobs": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": "jobs.sqlite3",
                "TEST": {"NAME": "test_jobs.sqlite3"},
            },
        }
        ROOT_URLCONF = "urls"
        STATIC_URL = "/static/"
    """,
    "urls.py": """
        from django.http import HttpResponse
        from django.urls import path
        from shop.tasks import double

        urlpatterns = [path("<int:n>/", lambda request, n: HttpResponse(str(double.enqueue(n).id)))]
    """,
    "shop/__init__.py": "",
    "shop/tasks.py": """
        import djqueue

        @djqueue.task
        def double(n):
            return 2 * n

        @djqueue.task
        def fail():
            raise ValueError("what happened")
    """,
    "test_memory.py": '''
        import djqueue
        import pytest
        from djqueue import testing

        def test_capture(djqueue_jobs, client):
            assert djqueue_jobs == []
            client.get("/1/")
            assert [job.args for job in djqueue_jobs] == [[1]]

        def test_every_test_starts_without_jobs(djqueue_jobs):
            assert djqueue_jobs == []
            assert testing.run_pending() == []

        def test_eager(djqueue_eager, djqueue_jobs, client):
            from shop.tasks import double, fail
            client.get("/2/")
            [record] = testing.assert_enqueued(double, args=[2], times=1)
            assert (record.result, len(djqueue_jobs)) == (4, 1)
            with pytest.raises(ValueError, match="what happened"):
                fail.enqueue()

        def test_eager_ends_with_the_test(db):
            from shop.tasks import double
            assert double.enqueue(1).status() == "pending"

        def test_a_worker_cannot_share_memory(transactional_db, request):
            with pytest.raises(djqueue.DjqueueError) as raised:
                request.getfixturevalue("djqueue_worker")
            assert """Set DATABASES['default']["TEST"] = {"NAME": "test.sqlite3"}""" in str(raised.value)
    ''',
    "test_other_database.py": """
        import pytest
        import urllib.request
        from djqueue import get_job, testing

        @pytest.fixture(autouse=True)
        def jobs_in_another_database(settings):
            settings.DJQUEUE = {"DATABASE": "jobs"}

        @pytest.mark.django_db(databases=["jobs"])
        def test_in_the_transaction_of_another_database(djqueue_jobs):
            from shop.tasks import double
            double.using(delay=60).enqueue(4)
            assert [job.result for job in testing.advance(60)] == [8]
            assert len(djqueue_jobs) == 1

        @pytest.mark.django_db(databases=["default", "jobs"], transaction=True)
        def test_a_worker_beside_the_live_server(live_server, djqueue_worker, djqueue_jobs):
            from djqueue import wait
            with urllib.request.urlopen(f"{live_server.url}/5/") as answer:
                id = answer.read().decode()
            assert (wait(id, 20).record.result, len(djqueue_jobs)) == (10, 1)
    """,
    "without/test_plain.py": """
        import sys

        def test_nothing_of_django_is_configured():
            from django.conf import settings
            assert not settings.configured
            assert "djqueue.models" not in sys.modules
    """,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, source in PROJECT.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in source.splitlines()))
    return folder


def test_the_fixtures_work_in_a_project(project):
    output = run_pytest(project, "--ds=settings", "--ignore=without", "-c", "/dev/null", cwd=project)
    assert "7 passed" in output


def test_without_django_nothing_happens(project):
    output = run_pytest(project, "-p", "no:django", "-c", "/dev/null", "without", cwd=project)
    assert "1 passed" in output
