"""Runs jobs: the only place with threads of its own beside the listener."""
