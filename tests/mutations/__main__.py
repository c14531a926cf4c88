"""The command; see the package."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests import postgres

from .catalog import VARIANTS
from .run import HUNG, OUT_OF_DATE, SECONDS_OF_ALL, SURVIVED, Copy, by_databases, problems_of
from .variant import Variant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a variant, or a part of its name; by default all")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    options = parser.parse_args()
    unknown = [name for name in options.names if not any(name in variant.name for variant in VARIANTS)]
    if unknown:
        parser.error(f"unknown variant {unknown[0]!r}; --list prints all names")
    chosen = [one for one in VARIANTS if not options.names or any(name in one.name for name in options.names)]
    if options.list:
        print(*(f"{variant.name} ({', '.join(variant.databases)})" for variant in chosen), sep="\n")
        return 0
    if problems := problems_of(chosen):
        print("The catalog is out of date.", *problems, sep="\n")
        return 2
    # However it is stopped, also in the background, it stops the server and the tests, and removes the copy.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="djqueue-mutations-") as folder:
        return run(Copy(Path(folder), database_url()), chosen)


def database_url() -> str:
    """Return the URL of the PostgreSQL that all runs share: DATABASE_URL, or a server that ends with this process."""
    return os.environ.get(postgres.VARIABLE) or postgres.start()


def run(copy: Copy, chosen: Sequence[Variant]) -> int:
    """Try the variants one by one, print each result and their numbers; return the exit code."""
    began = time.monotonic()
    imported = copy.imported_from()
    print(f"djqueue is imported from {imported}")
    if not imported.is_relative_to(copy.folder.resolve()):
        print("That is not the copy.")
        return 2
    if not tests_pass(copy, chosen):
        return 2
    results = Counter[str]()
    for variant in chosen:
        started = time.monotonic()
        result, detail = copy.try_variant(variant)
        results[result] += 1
        seconds = f"{time.monotonic() - started:.0f} s"
        print(f"{result:<9} {variant.name} ({seconds}){detail and f': {detail}'}", flush=True)
    numbers = ", ".join(f"{count} {result}" for result, count in results.most_common())
    print(f"{len(chosen)} variants in {(time.monotonic() - began) / 60:.1f} minutes: {numbers}")
    if results[OUT_OF_DATE]:
        return 2
    return 1 if results[SURVIVED] or results[HUNG] else 0


def tests_pass(copy: Copy, chosen: Sequence[Variant]) -> bool:
    """Run the tests of the variants on unchanged code, where none of them may fail."""
    for databases, node_ids in by_databases(chosen).items():
        if not copy.can_test_on(databases):
            continue
        result, detail = copy.test(node_ids, databases, SECONDS_OF_ALL)
        if result != SURVIVED:
            print(f"Without any change, on {', '.join(databases)}: {result} {detail}")
            return False
    print("Without any change, all tests pass.", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
