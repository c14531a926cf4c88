from unittest import TestCase

from example_project.demo.lines import WorkerLines
from example_project.demo.screen import BAD, GOOD, WARNING

START = "2026-11-17 16:05:01,123"


def record(level: str, event: str, task: str, rest: str = ""):
    return f"{START} {level} {event} job=0199 task=shop.tasks.{task} queue=mail attempt=1/5 seconds=0.304{rest}"


class Lines(TestCase):
    def setUp(self):
        self.lines = WorkerLines()

    def test_a_record_becomes_short(self):
        shown = self.lines.read(record("INFO", "done", "charge"))
        self.assertEqual(shown, [("✔ done      charge         mail      attempt 1/5  0.30 s", GOOD)])

    def test_a_failure_has_its_error_and_its_next_attempt(self):
        rest = " retry_in=4.2s exception=builtins.ConnectionError error='no answer'"
        [(text, colour)] = self.lines.read(record("WARNING", "failed", "charge", rest))
        self.assertTrue(text.endswith("no answer  (next attempt in 4.2 s)"), text)
        self.assertEqual(colour, WARNING)

    def test_the_traceback_of_a_dead_job_is_hidden(self):
        [(_, colour)] = self.lines.read(record("ERROR", "dead", "charge", " error='gone'"))
        self.assertEqual(colour, BAD)
        self.assertEqual(self.lines.read("Traceback (most recent call last):"), [])
        self.assertEqual(self.lines.read(f"{START} INFO draining"), [("draining", "")])
        self.assertEqual(len(self.lines.read("Traceback (most recent call last):")), 1)

    def test_many_jobs_of_a_task_become_two_lines(self):
        for number in range(5):
            self.assertEqual(len(self.lines.read(record("INFO", "done", "send_letter"))), int(number == 0))
        [(more, _), _] = self.lines.read(record("INFO", "done", "charge"))
        self.assertEqual(more, "  … and 4 more")

    def test_a_single_hidden_line_is_shown_later(self):
        self.lines.read(record("INFO", "done", "send_letter"))
        self.assertEqual(self.lines.read(record("INFO", "done", "send_letter")), [])
        shown = self.lines.read(record("INFO", "done", "charge"))
        self.assertIn("send_letter", shown[0][0])
