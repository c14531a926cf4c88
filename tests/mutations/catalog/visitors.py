"""What is served outside of the admin: signed URLs, probes and numbers."""

from __future__ import annotations

from tests.mutations.variant import Variant

CLOSED = "operations/test_health.py::test_without_the_token_or_the_permission_there_is_nothing"
MATCHES = "test_access.py::test_the_token_must_match"

VARIANTS = [
    Variant(
        "the signature of a progress URL is not checked",
        "progress/tokens.py",
        "    except BadSignature:\n        return None\n",
        '    except BadSignature:\n        job, expires = token.split(".")[:2]\n',
        "test_progress.py::test_a_changed_token_is_not_found",
    ),
    Variant(
        "a progress URL does not expire",
        "progress/tokens.py",
        "return UUID(job) if time.time() < int(expires) else None",
        "return UUID(job)",
        "test_progress.py::test_a_token_expires",
    ),
    Variant(
        "the URL that shows a job also cancels it",
        "progress/tokens.py",
        'salt=f"djqueue.progress.{purpose}"',
        'salt="djqueue.progress"',
        "test_progress.py::test_a_cancel_needs_its_own_signature_and_a_post",
    ),
    Variant(
        "a visitor cancels with GET",
        "progress/views.py",
        "@require_POST\n",
        "",
        "test_progress.py::test_a_cancel_needs_its_own_signature_and_a_post",
    ),
    Variant(
        "a cancel redirects to other sites",
        "progress/views.py",
        "if url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):",
        "if target:",
        "test_progress.py::test_a_cancel_does_not_redirect_to_other_sites",
    ),
    Variant(
        "closed views are open",
        "access.py",
        "        if not may_read(request):\n",
        "        if False:\n",
        "test_access.py::test_a_closed_view_is_not_found",
    ),
    Variant(
        "probes and numbers are open without the token",
        "views.py",
        "return transaction.non_atomic_requests(closed(never_cache(require_safe(view))))",
        "return transaction.non_atomic_requests(never_cache(require_safe(view)))",
        CLOSED,
    ),
    Variant(
        "any token opens",
        "access.py",
        'return compare_digest(given.strip().encode(errors="replace"), token.encode())',
        "return bool(given)",
        MATCHES,
    ),
    Variant(
        "everything is open if no token is set",
        "access.py",
        'if token is None or scheme.lower() != "bearer":\n        return False',
        'if token is None:\n        return True\n    if scheme.lower() != "bearer":\n        return False',
        "test_access.py::test_without_a_token_no_header_opens",
    ),
    Variant(
        "every user who is logged in may read",
        "access.py",
        "return user is not None and bool(user.has_perm(PERMISSION))",
        "return user is not None and user.is_authenticated",
        "test_access.py::test_users_with_the_view_permission_may_read",
    ),
]
