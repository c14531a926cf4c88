import io
import os
from unittest import TestCase

from example_project.demo.screen import Screen, has_colours


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Screens(TestCase):
    def test_colours_are_for_terminals(self):
        self.assertTrue(has_colours(Terminal(), {"TERM": "xterm"}))
        self.assertFalse(has_colours(io.StringIO(), {"TERM": "xterm"}))
        self.assertFalse(has_colours(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}))
        self.assertFalse(has_colours(Terminal(), {"TERM": "dumb"}))

    def test_a_line_has_the_name_of_its_process(self):
        out = io.StringIO()
        Screen(out, colours=False).line("web", "GET / 200", "32")
        self.assertEqual(out.getvalue(), "web     GET / 200\n")

    def test_a_terminal_without_unicode_gets_what_it_can_show(self):
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding="ascii")
        Screen(out, colours=False).line("worker", "✔ done")
        self.assertEqual(raw.getvalue(), b"worker  ? done\n")

    def test_a_closed_pipe_is_no_error(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w") as out:
            screen = Screen(out, colours=False)
            screen.line("web", "one")
            self.assertTrue(screen.closed.is_set())
            screen.line("web", "two")
