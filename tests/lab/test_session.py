"""A session outlives the pipe of its training process."""

import asyncio

from recombine.lab.session import Session


class Closing:
    """A pipe that is closed while it is read: its handle is gone by then."""

    def recv_bytes(self):
        raise TypeError("'NoneType' object cannot be interpreted as an integer")


def test_a_pipe_closed_while_it_is_read_ends_the_session():
    async def ended():
        session = Session(None, Closing(), asyncio.get_running_loop())
        await asyncio.wait_for(session.news.wait(), 10)
        return session.ended

    assert asyncio.run(ended())
