"""Kill the servers of a replicated database while jobs are enqueued and run, and check that no job was lost.

    python -m benchmarks.cluster failover [--kills 10] [--freezes 1] [--switchovers 5] [--asynchronous] [--rate 50]
    python -m benchmarks.cluster galera [--kills 1] [--rate 50]

- **failover**: three PostgreSQL nodes under Patroni with etcd. Two producers and a worker use all of them by a
  multi-host DSN (target_session_attrs=read-write). The primary is killed with SIGKILL: by turns the server alone, and
  the server together with its Patroni, as if the machine was lost. Then there are planned switchovers. Replication is
  synchronous (`synchronous_mode_strict`), unless --asynchronous is given: then the standbys are one second behind at
  each kill.
- **galera**: three MariaDB nodes with Galera, a worker and a producer on each. One node is killed with SIGKILL, is away
  for a while, and joins again. The other nodes must go on.

The load, the ledgers and the audit are those of `benchmarks.soak`, without its operator. A producer repeats an enqueue
that was not answered, with the same ids. The exit code is 1 if a rule is violated; with --asynchronous, acknowledged
jobs may be lost.

All servers run on 127.0.0.1 with ports of their own in a temporary folder, which is removed at the end. As root, they
run as another user, and missing Debian packages are installed.
"""
