"""Code of a project that reads a row and then writes it: `python -m tests.processes.read_then_write NAME COUNT MOST`.

Starts when it reads a line, and prints how many of the transactions failed, by their error; ends before they are so
many as COUNT if more than MOST have failed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import django
from django.conf import settings

ALIAS = "sqlite"


def read_then_write(count: int, failures: int) -> Counter[str]:
    from django.contrib.auth.models import Group
    from django.db import OperationalError, transaction

    groups = Group.objects.using(ALIAS)
    group = groups.create(name="0")
    failed: Counter[str] = Counter()
    for number in range(count):
        try:
            with transaction.atomic(using=ALIAS):
                found = groups.get(pk=group.pk)
                found.name = str(number)
                found.save(using=ALIAS)
        except OperationalError as error:
            failed[str(error)] += 1
            if failed.total() > failures:
                break
    group.delete(using=ALIAS)
    return failed


if __name__ == "__main__":
    name, count, failures = sys.argv[1:]
    settings.DATABASES[ALIAS]["NAME"] = name
    django.setup()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(read_then_write(int(count), int(failures))))
