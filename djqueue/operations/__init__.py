"""What operators ask: how the queue is doing, what is wrong with it, and why a job does not run. It only reads."""
