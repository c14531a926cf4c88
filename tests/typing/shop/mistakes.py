"""Every line that ends with "mistake" must be an error for a type checker, and no other line."""

from __future__ import annotations

import djqueue
from djqueue import kv, schedules

from .tasks import charge, clean, plain, send

send.enqueue("x")  # mistake: argument type
send.enqueue()  # mistake: missing argument
send.delay(1, 2)  # mistake: argument type
send.enqueue(1, txt="x")  # mistake: unknown argument
plain.enqueue(1)  # mistake: too many arguments
clean.enqueue(before=5)  # mistake: argument type
charge.using(queue="money").enqueue(1, 2)  # mistake: argument types, after using()
send.call("x")  # mistake: argument type
send.using(prioritty=1)  # mistake: unknown option
send.using(priority="high")  # mistake: option type
send.using(delay="5")  # mistake: option type
send.using(cron="0 0 * * *")  # mistake: an option of tasks
send.call(1).using(quue="mail")  # mistake: unknown option
djqueue.call(1).using(run_at="now")  # mistake: option type
djqueue.enqueue("shop.charge", [1], que="mail")  # mistake: unknown option
djqueue.enqueue("shop.charge", retry=5)  # mistake: option type
wrong: int = send(1)  # mistake: return type
kv.set("a", 1, expires=5)  # mistake: unknown argument
schedules.create("s", task=send, corn="0 * * * *")  # mistake: unknown option
djqueue.schedule("s", task=send, every="1h")  # mistake: option type


@djqueue.task(quue="mail")  # mistake: unknown option
def misspelt() -> None: ...


@djqueue.task(max_attempts="3")  # mistake: option type
def mistyped() -> None: ...


async def asynchronous() -> None:
    await send.aenqueue("x")  # mistake: argument type
    await djqueue.aenqueue("shop.charge", [1], quue="x")  # mistake: unknown option
    await send.using(delya=5).aenqueue(1)  # mistake: unknown option
