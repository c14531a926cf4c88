"""Sensitive arguments that are shown, found, stored or logged."""

from __future__ import annotations

from tests.mutations.variant import Variant

PAGES = "admin/test_pages.py::test_sensitive_arguments_are_masked_on_every_page"

VARIANTS = [
    Variant(
        "sensitive arguments are shown",
        "core/masking.py",
        "    if not _has_secrets(task):\n        return args, kwargs\n",
        "    return args, kwargs\n",
        "core/test_masking.py::test_arguments_are_masked_by_position_and_by_name",
    ),
    Variant(
        "sensitive arguments are shown in lists",
        "admin/job_base.py",
        "args, kwargs = masking.masked(obj.task, obj.short_args, obj.short_kwargs)",
        "args, kwargs = obj.short_args, obj.short_kwargs",
        PAGES,
    ),
    Variant(
        "sensitive arguments are shown on the page of a job",
        "admin/job_base.py",
        "args, kwargs = masking.masked(job.task, job.args, job.kwargs)",
        "args, kwargs = job.args, job.kwargs",
        "admin/test_pages.py::test_a_short_sensitive_argument_is_masked_on_the_page_of_a_job",
    ),
    Variant(
        "secrets are shown in the result, headers and progress of a job",
        "admin/job_base.py",
        "display.pretty_json(masking.hide_in(value, secrets))",
        "display.pretty_json(value)",
        PAGES,
    ),
    Variant(
        "secrets are shown in errors of lists",
        "admin/job_base.py",
        "hidden = masking.hide(obj.last_error, masking.secrets(obj.task, obj.short_args, obj.short_kwargs))",
        "hidden = obj.last_error",
        PAGES,
    ),
    Variant(
        "secrets are shown in the last error of a job",
        "admin/job_base.py",
        '"last_error": masking.hide(job.last_error, secrets),',
        '"last_error": job.last_error,',
        PAGES,
    ),
    Variant(
        "a search finds sensitive arguments",
        "core/masking.py",
        "if name and not secret}",
        "if name}",
        "admin/test_search.py::test_search_does_not_find_masked_values",
    ),
    Variant(
        "a search finds secrets in errors",
        "admin/search.py",
        "text = masking.hide(error, masking.secrets(task, *values)).lower()",
        "text = error.lower()",
        "admin/test_search.py::test_search_does_not_find_masked_values_in_errors",
    ),
    Variant(
        "a URL filters by any column",
        "admin/base.py",
        "                return True\n        return False\n",
        "                return True\n        return True\n",
        "admin/test_lists.py::test_other_lookups_are_refused",
    ),
    Variant(
        "the arguments of unknown tasks are shown",
        "core/masking.py",
        "return is_unknown(task) or bool(registry.options(task).sensitive)",
        "return bool(registry.options(task).sensitive)",
        "core/test_masking.py::test_every_argument_of_an_unknown_task_is_masked",
    ),
    Variant(
        "the positional arguments of unknown tasks are shown",
        "core/masking.py",
        'yield from ((f"args[{position}]", value, True) for',
        'yield from ((f"args[{position}]", value, False) for',
        "core/test_masking.py::test_every_argument_of_an_unknown_task_is_masked",
    ),
    Variant(
        "the named arguments of unknown tasks are shown",
        "core/masking.py",
        "    unknown = is_unknown(task)\n",
        "    unknown = False\n",
        "core/test_masking.py::test_every_argument_of_an_unknown_task_is_masked",
    ),
    Variant(
        "the exception of a task with secrets is logged",
        "lifecycle/outcome_log.py",
        "return None if registry.options(task).sensitive else error",
        "return error",
        "worker/test_log.py::test_a_sensitive_argument_is_in_no_line_and_in_no_record",
    ),
    Variant(
        "secrets are stored in tracebacks",
        "lifecycle/failure.py",
        'safe_text(hide("".join(lines), secrets), MAX_TRACEBACK)',
        'safe_text("".join(lines), MAX_TRACEBACK)',
        "core/test_masking.py::test_errors_and_tracebacks_do_not_contain_secrets",
    ),
    Variant(
        "secrets are stored in messages",
        "lifecycle/failure.py",
        "safe_text(hide(message, secrets) or kind.__name__, MAX_MESSAGE)",
        "safe_text(message or kind.__name__, MAX_MESSAGE)",
        "core/test_masking.py::test_errors_and_tracebacks_do_not_contain_secrets",
    ),
    Variant(
        "a message is cut before its secrets are masked",
        "lifecycle/failure.py",
        "safe_text(hide(message, secrets) or kind.__name__, MAX_MESSAGE)",
        "hide(safe_text(message or kind.__name__, MAX_MESSAGE), secrets)",
        "core/test_masking.py::test_a_secret_is_masked_before_the_text_is_cut",
    ),
    Variant(
        "a reason is cut before its secrets are masked",
        "lifecycle/failure.py",
        "return Failure(safe_text(hide(message, secrets), MAX_MESSAGE))",
        "return Failure(hide(safe_text(message, MAX_MESSAGE), secrets))",
        "core/test_masking.py::test_a_secret_is_masked_before_the_text_is_cut",
    ),
    Variant(
        "the marker of a result shows secrets",
        "lifecycle/failure.py",
        "return safe_text(hide(text, secrets), MAX_REPR)",
        "return safe_text(text, MAX_REPR)",
        "lifecycle/test_settle.py::test_the_marker_of_a_result_contains_no_secret",
    ),
]
