"""The follower of the tutorial: it does what a page says, and fails where the page is wrong."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path

import pytest

from tests.packaging.tutorial.files import changed
from tests.packaging.tutorial.follow import Follower
from tests.packaging.tutorial.output import missing_line
from tests.packaging.tutorial.page import PageError
from tests.packaging.tutorial.shell import Shell

# Stands for a project; a foreground command says that it is ready, and ends at Ctrl-C.
MANAGE = """
```python
# manage.py
import code, os, signal, sys
if sys.argv[1] == "shell":
    code.interact(banner="", exitmsg="")
else:
    signal.signal(signal.SIGINT, lambda number, frame: (os.write(1, b"stopped\\n"), os._exit(STATUS)))
    print("ready", *sys.argv[1:], flush=True)
    while True:
        signal.pause()
```
"""


@pytest.fixture
def follow(tmp_path):
    def follow_page(*parts: str, status: int = 0) -> Follower:
        page = tmp_path / "page.md"
        page.write_text("\n".join(textwrap.dedent(part).replace("STATUS", str(status)) for part in parts))
        with Follower(page, Path(tempfile.mkdtemp(dir=tmp_path))) as follower:
            follower.follow()
            follower.press_ctrl_c()
        return follower

    return follow_page


def test_commands_share_their_folder_and_variables(follow):
    follow(
        """
        Text.

        ```console
        $ mkdir site && cd site
        $ export NAME=Ada
        ```

        More text:

        ```console
        $ echo "$NAME in \\
        $(basename "$PWD")"
        Ada in site
        ```
        """
    )


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("two", "the output has no line 'two' where the page shows it:\none\nthree"),
        ("three\none", "no line 'one'"),
        ("on", "no line 'on'"),
        ("o...x", "no line 'o...x'"),
    ],
)
def test_output_that_does_not_come_fails(follow, shown, message):
    with pytest.raises(PageError, match=r"page\.md, line 2: printf") as raised:
        follow(f"```console\n$ printf 'one\\nthree\\n'\n{shown}\n```")
    assert message in str(raised.value)


@pytest.mark.parametrize("shown", ["one\nthree", "three", "...\nthree", "o...e\n...\nth...", "  one  "])
def test_output_that_comes_in_this_order_is_accepted(shown):
    assert missing_line(shown.splitlines(), "one\ntwo\nthree\n") is None


def test_a_command_that_fails_is_an_error(follow):
    with pytest.raises(PageError, match="line 3: false: exited with 1"):
        follow("```console\n$ true\n$ false\n```")


def test_files_are_written_added_to_and_changed(follow):
    follower = follow(
        """
        ```python
        # shop/tasks.py
        A = 1
        B = [
            2,
        ]
        ```

        ```python
        # shop/tasks.py (add)
        C = 3
        ```

        ```python
        # shop/tasks.py (change)
        import os

        B = 4
        ```

        ```text
        only shown
        ```
        """
    )
    assert (follower.shell.folder / "shop/tasks.py").read_text() == "import os\nA = 1\nB = 4\n\n\nC = 3\n"
    assert follower.tasks == ["shop.tasks"] * 3


def test_a_change_replaces_names_and_puts_imports_below_the_docstring():
    old = '"""Doc."""\nimport a\n\n@a.b\ndef f():\n    pass\n\nX: int = 1\n'
    new = "from c import d\n\ndef f():\n    return d\n\nclass N:\n    pass\n"
    assert changed(old, new) == (
        '"""Doc."""\nfrom c import d\nimport a\n\ndef f():\n    return d\n\nX: int = 1\n\nclass N:\n    pass\n'
    )


@pytest.mark.parametrize("mode", ["add", "change"])
def test_a_file_that_does_not_exist_cannot_be_changed(follow, mode):
    with pytest.raises(PageError, match=r"shop/tasks\.py does not exist"):
        follow(f"```python\n# shop/tasks.py ({mode})\nA = 1\n```")


def test_a_block_without_the_name_of_its_file_fails(follow):
    with pytest.raises(PageError, match="line 2: the block does not begin with a comment that names its file"):
        follow("```python\nprint(1)\n```")


def test_foreground_commands_run_beside_the_rest_until_ctrl_c(follow):
    follow(
        MANAGE,
        """
        ```console
        $ python3 manage.py runworker
        ready runworker
        ```

        ```console
        $ python3 manage.py runserver
        ready runserver ...
        $ true
        ```

        Press Ctrl-C in the terminal of the worker, and start it again:

        ```console
        $ python3 manage.py runworker --queue mail
        ready runworker --queue mail
        ^C
        stopped
        ```
        """,
    )


def test_the_address_of_the_server_has_a_free_port(follow):
    follower = follow(
        MANAGE, "```console\n$ python3 manage.py runserver\n...runserver ...\n$ echo http://localhost:8000/\n```"
    )
    assert follower.commands[-1] == f"echo http://localhost:{follower.port}/"
    assert follower.port != 8000


def test_output_that_comes_later_is_awaited(follow):
    follow(
        MANAGE.replace("signal.pause()", 'open("pipe").read(); print("a job came", flush=True); signal.pause()'),
        """
        ```console
        $ mkfifo pipe
        $ python3 manage.py runworker
        ready runworker
        $ echo job > pipe
        ```

        ```console
        # the worker
        a job came
        ```
        """,
    )


def test_output_of_a_command_that_does_not_run_is_an_error(follow):
    with pytest.raises(PageError, match="no server is running"):
        follow(MANAGE, "```console\n# the server\nready\n```")


def test_a_foreground_command_that_ends_by_itself_fails(follow):
    with pytest.raises(PageError, match="no line 'ready'"):
        follow("```python\n# manage.py\nprint('bye')\n```", "```console\n$ python3 manage.py runworker\nready\n```")


def test_a_foreground_command_that_fails_at_ctrl_c_is_an_error(follow):
    with pytest.raises(PageError, match="exited with 3"):
        follow(MANAGE, "```console\n$ python3 manage.py runworker\nready ...\n^C\n```", status=3)


def test_statements_are_typed_at_the_prompt(follow):
    follow(
        MANAGE,
        """
        ```console
        $ python3 manage.py shell
        >>> 20 + 3
        23
        >>> for n in range(2):
        ...     print("n", n)
        n 0
        n 1
        >>> x = [
        ...     1,
        ... ]
        >>> x
        [1]
        ```
        """,
    )


def test_a_wrong_answer_at_the_prompt_fails(follow):
    with pytest.raises(PageError, match="no line '24'"):
        follow(MANAGE, "```console\n$ python3 manage.py shell\n>>> 20 + 3\n24\n```")


def test_the_account_is_read_from_the_page(follow):
    create = "DJANGO_SUPERUSER_PASSWORD=secret echo createsuperuser --noinput --username admin"
    assert follow(f"```console\n$ {create}\n```").account() == ("admin", "secret")
    with pytest.raises(PageError, match="creates no administrator"):
        follow("").account()


def test_nothing_of_the_environment_of_the_tests_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.settings")
    output = Shell(tmp_path, tmp_path / "state").run("env; which python3", [])
    assert "DJANGO_SETTINGS_MODULE" not in output
    assert str(Path.cwd()) not in output.splitlines()[-1]
