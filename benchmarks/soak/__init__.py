"""Run producers, workers and an operator under random faults, and check that no job was lost: a soak test.

    python -m benchmarks.soak --minutes 10 --kill-every 5 [--database postgresql] [--seed 7] [--plot soak.png]

- **Load.** Two producers enqueue jobs of several kinds: quick, slow, failing at first, always failing, with a dedup
  key, delayed, limited, coroutines, batches in a transaction. An operator cancels, reschedules and requeues jobs, and
  pauses queues. Two `runworker` with two processes each run the jobs.
- **Faults.** Every few seconds, a random fault: SIGKILL of a worker process or of a whole worker, SIGSTOP of a process
  or of a whole worker for longer than its lease, sessions ended by the server, a restart of the server (fast, or
  immediate, which is a crash), and connections cut by a proxy, so that the response of a COMMIT is lost. On MariaDB,
  sessions are killed and the server is not restarted; on SQLite, there are only the faults of processes.
- **Ledgers.** Tasks, producers and the operator write what they did to files of their own, one line per event. So the
  audit does not depend on what the queue says about itself.
- **Audit.** The faults end, the workers drain the queue and are stopped. Then the tables are compared with the ledgers.
  The exit code is 1 if a rule is violated; the ledgers and the logs of the workers are kept in that case.

PostgreSQL is a temporary server, unless DATABASE_URL is set; a server that is not ours is not restarted. MariaDB is
DJQUEUE_TEST_MYSQL_URL, in a database of its own. The same seed gives the same faults in the same order, but not the
same moments: these depend on the load of the machine.
"""
