"""Values that cannot be stored, or that are too large."""

from __future__ import annotations

from tests.mutations.variant import Variant

BAD = "lifecycle/test_enqueue.py::test_bad_arguments_are_refused_by_name_before_anything_is_written"
BAD_PART = "core/test_payload.py::test_the_error_contains_the_path_of_the_bad_part"
LARGEST = "lifecycle/test_enqueue.py::test_the_largest_payload_that_is_allowed_passes"

VARIANTS = [
    Variant(
        "the size of a payload is not checked", "core/payload.py", "    if total > limit:\n", "    if False:\n", BAD
    ),
    Variant(
        "the size of plain arguments is not checked",
        "core/payload.py",
        " and 4 * len(flat) <= limit - 4:",
        ":",
        f"{BAD} {LARGEST}",
    ),
    Variant(
        "a payload of the largest size is refused",
        "core/payload.py",
        "    if total > limit:\n",
        "    if total >= limit:\n",
        LARGEST,
    ),
    Variant(
        "a NUL character is accepted",
        "core/payload.py",
        '_BAD_TEXT = re.compile("[\\x00\\ud800-\\udfff]")',
        '_BAD_TEXT = re.compile("[\\ud800-\\udfff]")',
        BAD,
    ),
    Variant(
        "a NUL character in plain arguments is accepted",
        "core/payload.py",
        'return "\\x00" not in text if text.isascii() else',
        "return True if text.isascii() else",
        BAD,
    ),
    Variant(
        "a lone surrogate is accepted",
        "core/payload.py",
        '_BAD_TEXT = re.compile("[\\x00\\ud800-\\udfff]")',
        '_BAD_TEXT = re.compile("[\\x00]")',
        BAD_PART,
    ),
    Variant(
        "NaN is accepted",
        "core/payload.py",
        "        if not math.isfinite(value):\n",
        "        if False:\n",
        BAD,
    ),
    Variant(
        "a value may be nested without a limit",
        "core/payload.py",
        "    elif depth >= MAX_DEPTH:\n",
        "    elif False:\n",
        "lifecycle/test_enqueue.py::test_nesting_too_deep_is_refused core/test_payload.py",
    ),
    Variant(
        "an integer may have any number of digits",
        "core/payload.py",
        "        if not -_MAX_INT < value < _MAX_INT:\n",
        "        if False:\n",
        BAD_PART,
    ),
    Variant(
        "the size of a KV value is not checked",
        "core/payload.py",
        "    if size > MAX_KV_VALUE_SIZE:\n",
        "    if False:\n",
        "test_kv.py::test_a_value_that_is_too_large_is_refused_before_any_write",
    ),
    Variant(
        "progress may have any size",
        "lifecycle/lease.py",
        '    payload.check_size({"progress": text}, config().max_payload_size)\n',
        "",
        "worker/process/test_worker.py::test_progress_that_is_too_large_is_refused",
    ),
    Variant(
        "arguments are not checked against the signature",
        "lifecycle/enqueue.py",
        "    signatures.check(task, len(args), kwargs)\n",
        "",
        "lifecycle/test_arguments.py::test_arguments_that_do_not_fit_are_refused_before_anything_is_written",
    ),
]
