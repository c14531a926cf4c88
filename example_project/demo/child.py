"""A command of the demo in a process of its own: `python -m example_project.demo.child PARENT COMMAND …`.

It stops when the demo exits for any reason, so that a demo that was killed leaves no worker behind.
"""

from __future__ import annotations

import signal
import sys

from django.core.management import execute_from_command_line

from djqueue.worker.os_process import die_with_parent

if __name__ == "__main__":
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent), signal.SIGTERM)
    execute_from_command_line(["manage.py", *command])
