import djqueue
from tests.app.tasks import add


def test_smoke(database):
    h = add.enqueue(1, b=2)
    assert h.status() == "pending"
    [c] = djqueue.Queue("default").claim()
    assert (c.args, c.kwargs, c.attempt) == ([1], {"b": 2}, 1)
    c.renew(5)
    c.progress(1, 2)
    c.nack("boom")
    assert h.status() == "scheduled"
    assert h.job().last_error == "boom"
    h2 = add.using(id="0198c9b4-0000-7000-8000-000000000000", kv={"a": 1}, dedup_key="x").enqueue(1)
    [c] = djqueue.Queue("default").claim()
    c.ack({"x": 1})
    assert h2.job().result == {"x": 1}
    import pytest

    with pytest.raises(djqueue.DuplicateJob):
        add.using(id="0198c9b4-0000-7000-8000-000000000000").enqueue(1)
    with pytest.raises(djqueue.LeaseLost):
        c.ack()
    add.enqueue(1)
    [c] = djqueue.Queue("default").claim(lease=0)
    assert djqueue.maintenance.reap() == 1
    print(djqueue.stats("default"), djqueue.queues(), djqueue.maintenance.roll_up(), djqueue.maintenance.sweep_done(0))
    djqueue.Queue("default").pause()
    assert djqueue.Queue("default").claim() == []
