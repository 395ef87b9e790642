# SPDX-License-Identifier: MIT OR Apache-2.0
"""Marks: a program says which message (request, packet, task) a thread works on, and ``perftax trace record`` listens.

    import perftax_tag

    with perftax_tag.message(name="GET /cart"):
        ...                       # begins here, and ends at the block's end

or by hand, where that is worth some nanoseconds:

    perftax_tag.begin(id)         # the thread starts to work on message id
    perftax_tag.switch(other)     # it goes on with another one, which has begun already; 0: with none
    perftax_tag.end(id)           # message id is done

``follow()``, once, has messages follow contexts: an asyncio task takes the one along that it was created in, or that it begins, whenever the loop
runs it, and what is handed to a thread pool is of the message of whoever hands it over. CPython 3.10 and later; loops that have handles of their own (uvloop) and
greenlets are not followed: ``switch`` says it there.

Where nobody listens a mark takes what calling a function does.
"""

import concurrent.futures
import contextlib
import functools

from ._tag import (
    _follow_handles,
    _messages,
    begin,
    child,
    end,
    identity,
    is_listened,
    name,
    new_id,
    receive,
    send,
    switch,
)

__all__ = [
    "begin",
    "carried",
    "child",
    "end",
    "follow",
    "identity",
    "is_listened",
    "message",
    "name",
    "new_id",
    "receive",
    "send",
    "switch",
]

# The package's own name shadows the function within message().
_name = name
_is_followed = False


@contextlib.contextmanager
def message(id=None, *, name=None, parent=None):
    """Works on a message within the block; without an id it has a new one. Yields the id."""
    id = new_id() if id is None else id
    begin(id)
    try:
        if name is not None:
            _name(id, name)
        if parent is not None:
            child(id, parent)
        yield id
    finally:
        end(id)


def _last(at):
    """The last message of a context's that is not over; 0: none."""
    while at is not None and not at[0]:
        at = at[1]
    return at[0] if at is not None else 0


def carried(function):
    """The function, for another thread: it is of the message that the caller is at (which follow() has it know)."""
    at = _messages.get(None)
    if at is None:
        return function

    @functools.wraps(function)
    def works(*args, **kwargs):
        before = _messages.get(None)
        token = _messages.set(at)
        switch(_last(at))
        # switch() has made it one of none; what it is part of goes along.
        _messages.set(at)
        try:
            return function(*args, **kwargs)
        finally:
            switch(_last(before))
            _messages.reset(token)

    return works


def follow():
    """Messages follow contexts from now on: in asyncio's tasks and callbacks, and into thread pools. Once is enough."""
    global _is_followed
    if _is_followed:
        return
    _is_followed = True
    import asyncio.events

    asyncio.events.Handle._run = _follow_handles(asyncio.events.Handle._run)
    submit = concurrent.futures.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def submit_carried(self, fn, /, *args, **kwargs):
        return submit(self, carried(fn), *args, **kwargs)

    concurrent.futures.ThreadPoolExecutor.submit = submit_carried
