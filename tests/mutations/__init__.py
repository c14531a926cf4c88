"""Break each guard of djqueue once, and see whether the tests notice: `python -m tests.mutations [NAME ...] [--list]`.

A broken variant that no test sees shows a missing test. pytest does not collect anything here.
"""
