"""The names under which PostgreSQL tells other processes what was committed."""

PENDING = "djqueue_pending"  # with the queue: jobs may be claimed there
SCHEDULED = "djqueue_scheduled"  # a job or a schedule waits for its time: who sleeps until one may have to wake earlier
CHECK = "djqueue_check"  # tells nothing but that it was heard
ENDED = "djqueue_ended"  # jobs ended; without ids, waiters look for theirs
