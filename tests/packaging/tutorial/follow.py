"""Follow a page, step by step."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from tests.packaging.tutorial.files import write
from tests.packaging.tutorial.page import Command, File, Later, PageError, Paragraph, Step, steps
from tests.packaging.tutorial.shell import Shell
from tests.packaging.tutorial.terminal import Terminal

PORT = "8000"


class Follower:
    """Someone who reads a page and does what it says. Use it as a context manager: it ends what the page started."""

    def __init__(self, page: Path, folder: Path, **variables: str) -> None:
        """Follow the page in an empty folder, with these variables in the environment."""
        home = folder / "folder"
        home.mkdir(parents=True)
        self.page = page
        self.shell = Shell(home, folder / "state", **variables)
        self.port = free_port()
        self.running: dict[str, Terminal] = {}
        self.commands: list[str] = []
        self.tasks: list[str] = []

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for terminal in self.running.values():
            terminal.close()

    def follow(self) -> None:
        for step in steps(self.page.read_text().replace(f":{PORT}", f":{self.port}")):
            try:
                self.do(step)
            except PageError as error:
                raise PageError(f"{self.page.name}, line {step.line}: {describe(step)}: {error}") from None

    def do(self, step: Step) -> None:
        match step:
            case Paragraph(text=text):
                if "press ctrl-c" in text.lower():
                    self.press_ctrl_c(text)
            case File():
                write(self.shell.folder, step)
                if Path(step.path).name == "tasks.py":
                    self.tasks.append(step.path.removesuffix(".py").replace("/", "."))
            case Later(name=name, output=shown):
                if name not in self.running:
                    raise PageError(f"no {name} is running")
                self.running[name].expect_next(shown)
            case Command():
                self.commands.append(step.text)
                self.run(step)

    def run(self, command: Command) -> None:
        if name := command.foreground:
            self.start(name, command.text).expect_next(command.output)
            if command.interrupted:
                self.running.pop(name).interrupt(command.output_after)
        elif command.typed:
            self.shell.prompt(command.text, command.typed)
        else:
            self.shell.run(command.text, command.output)

    def start(self, name: str, command: str) -> Terminal:
        if name in self.running:
            raise PageError(f"the {name} is still running")
        if command.endswith("runserver"):
            command = f"{command} {self.port}"
        self.running[name] = self.shell.start(command)
        return self.running[name]

    def press_ctrl_c(self, paragraph: str = "") -> None:
        """Stop the commands that the paragraph names, or all if it names none."""
        named = [name for name in ("worker", "server") if name in paragraph.lower()]
        for name in named or list(self.running):
            if name not in self.running:
                raise PageError(f"no {name} is running")
            self.running.pop(name).interrupt()

    def account(self) -> tuple[str, str]:
        """Return the name and the password of the administrator that the page created."""
        text = "\n".join(self.commands)
        name = re.search(r"createsuperuser.*--username[ =](\S+)|DJANGO_SUPERUSER_USERNAME=(\S+)", text)
        password = re.search(r"DJANGO_SUPERUSER_PASSWORD=(\S+)", text)
        if not name or not password:
            raise PageError("the page creates no administrator by createsuperuser --noinput")
        return name[1] or name[2], password[1].strip("'\"")


def describe(step: Step) -> str:
    match step:
        case Command(text=text):
            return text
        case File(path=path):
            return path
        case Later(name=name):
            return f"the {name}"
    return "Ctrl-C"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
