"""The only writers of job state, one verb per file."""
