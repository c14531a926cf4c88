"""The worker, which runs jobs: `supervisor` runs in the parent process, `process` in each worker process."""
