"""Receivers of all signals of a job's life, each printing a line: what the demo shows."""

from djqueue import signals

EVENTS = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


def show(say=print):
    for event in EVENTS:
        getattr(signals, f"job_{event}").connect(receiver(event, say), weak=False)


def receiver(event, say):
    def receive(name, id, attempt, **kwargs):  # noqa: A002
        more = "".join(f" {key}={kwargs[key]!r:.60}" for key in ("error", "delay", "result") if kwargs.get(key))
        say(f"  {event:<11} task={name.rpartition('.')[2]} job={id} attempt={attempt}{more}")

    return receive
