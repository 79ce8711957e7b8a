"""Runs long work without blocking an event loop."""

import asyncio

from ._native import _core


async def in_background(work, progress):
    """Awaits `work(progress, stop)`, which runs in another thread. `progress` (or None) is called in the loop. Cancelling the
    task asks the work to stop, and waits until it has."""
    loop = asyncio.get_running_loop()
    stop = _core.Stop()

    def tell(*facts):
        loop.call_soon_threadsafe(progress, *facts)

    future = loop.run_in_executor(None, work, tell if progress else None, stop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.request()
        await asyncio.wait([future])  # nothing of ours goes on behind the caller's back
        future.exception()  # what it ended with counts for nothing
        raise
