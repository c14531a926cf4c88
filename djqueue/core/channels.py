"""The channels on which PostgreSQL notifies other processes of commits."""

PENDING = "djqueue_pending"  # the payload is a queue in which jobs can be claimed
SCHEDULED = "djqueue_scheduled"  # a job or a schedule has a new time; a sleeping scheduler may have to wake up earlier
CHECK = "djqueue_check"  # a test that notifications arrive
ENDED = "djqueue_ended"  # jobs have finished; the notification carries no ids, so waiters query their jobs
BLOCKED = "djqueue_blocked"  # the payload is a limit key of which jobs may be admitted; empty for any key
