"""An app of a user who checks types; tests/test_types.py runs the type checkers on it."""
