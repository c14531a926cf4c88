"""What a process holds, as another reads it."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from djqueue.exceptions import DjqueueError
from djqueue.worker.board import PLACES, Board, Entry, new_memory


def test_a_reader_sees_what_is_held_and_what_runs():
    board = Board()
    held, running = (uuid4(), uuid4()), (uuid4(), uuid4())
    board.put(held, 30)
    place = board.put(running, 12.5)
    board.run(place, running, 12.5, 99.0)
    assert list(board.read()) == [Entry(held, 30, False, 0), Entry(running, 12.5, True, 99.0)]
    board.end(place)
    assert list(board.read())[1] == Entry(running, 12.5, True, 0)
    board.take_down(place)
    assert list(board.read()) == [Entry(held, 30, False, 0)]
    board.wipe()
    assert list(board.read()) == []


def test_a_forked_process_writes_for_its_parent():
    memory = new_memory(2)
    mine, theirs = Board(memory, 0), Board(memory, 1)
    claim = (uuid4(), uuid4())
    child = os.fork()
    if child == 0:
        Board(memory, 1).put(claim, 5)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(mine.read()) == []
    assert list(theirs.read()) == [Entry(claim, 5, False, 0)]


def test_places_are_used_again_and_end():
    board = Board()
    places = [board.put((uuid4(), uuid4()), 1) for _ in range(PLACES)]
    with pytest.raises(DjqueueError, match="1024 jobs at most"):
        board.put((uuid4(), uuid4()), 1)
    board.take_down(places[7])
    assert board.put((uuid4(), uuid4()), 1) == places[7]
