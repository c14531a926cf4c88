"""The overview: what is wrong, how fast the queues are, what failed, who works and what runs next, on one page."""
