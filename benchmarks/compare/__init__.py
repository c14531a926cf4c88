"""Compare djqueue with a hand-written loop and with other queues, on the same servers and in one run.

    python -m benchmarks compare [--quick] [--only drain,pickup] [--peers pgqueuer,celery] [--out DIR]

How it is measured:

- **Systems.** Each system has a database and, apart from djqueue and the limit, a virtual environment of its own. Its
  code is one module in `systems`, which answers requests in JSON lines (`systems/protocol.py`), and which starts its
  workers. "The limit" is what PostgreSQL and Python allow: one loop with psycopg that claims 100 rows, runs them and
  deletes them, and COPY for bulk inserts, without retries, history, leases or signals.
- **Jobs.** A job gets its number and a short text, and writes its number and the time into memory that is mapped from
  a file of its process (`systems/ledger.py`): less than a microsecond, without a system call and the same for every
  system. These ledgers are read after each run: **if a job did not run, or ran twice, the comparison fails.**
- **Drain.** The jobs are in the queue before the workers start. The rate counts the jobs from the moment at which every
  worker had run one to the last job, so neither the start of Python nor the order in which workers start matters. The
  run is over when the system has settled all jobs, and the CPU time includes that. Faster systems get more jobs, so
  that every drain takes about as long.
- **Pickup.** From just before the enqueue to the first line of the task, on an idle worker.
- **Order.** Systems take turns within each repetition, in an order that changes from one repetition to the next; tables
  are vacuumed and a checkpoint is made before each run. Figures are medians, with the lowest and the highest value.
- **Durability.** fsync and synchronous_commit are on. The Redis that is started for a run has its default settings,
  which lose the last jobs in a crash.

On a machine that does other work, only the ratios within one run mean anything.
"""
