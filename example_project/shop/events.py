"""Receivers of all signals, which print a line per event for the demo."""

from djqueue import signals

EVENTS = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


def show(write=print):
    for event in EVENTS:
        getattr(signals, f"job_{event}").connect(receiver(event, write), weak=False)


def receiver(event, write):
    def receive(name, id, attempt, **kwargs):  # noqa: A002
        more = "".join(f" {key}={kwargs[key]!r:.60}" for key in ("error", "delay", "result") if kwargs.get(key))
        write(f"  {event:<11} task={name.rpartition('.')[2]} job={id} attempt={attempt}{more}")

    return receive
