"""The tutorial, followed literally in an empty folder with the wheel that was just built."""

from __future__ import annotations

import pytest

from tests.packaging.conftest import ROOT
from tests.packaging.tutorial.follow import Follower
from tests.packaging.tutorial.page import PageError
from tests.packaging.tutorial.visit import check_that_a_job_is_done

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

TUTORIAL = ROOT / "docs" / "tutorial.md"


def test_a_reader_of_the_tutorial_sees_a_done_job_in_the_admin(wheel, tmp_path):
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"django-djqueue @ {wheel.as_uri()}\n")  # also where a release has the same version
    with Follower(TUTORIAL, tmp_path / "tutorial", PIP_CONSTRAINT=str(constraints)) as follower:
        follower.follow()
        check_that_a_job_is_done(follower)
        follower.tasks = ["no_such_app.tasks"]
        with pytest.raises(PageError, match="the admin shows no done job of"):
            check_that_a_job_is_done(follower)
        follower.press_ctrl_c()
