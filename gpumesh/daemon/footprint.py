"""What the process gives back to the kernel once it has read in all that it needs.

Reading modules leaves the C library with freed memory that it keeps for more of the same; none comes.
"""

from __future__ import annotations

import ctypes
import gc


def settle_memory() -> None:
    """Collect what is garbage, count the rest as lasting, and return freed memory to the kernel.

    A millisecond or two; to be called after much was read in, not at each turn. Where the C library cannot
    give memory back (musl has no ``malloc_trim``), it keeps it.
    """
    gc.collect()
    gc.freeze()  # modules and configuration live as long as the process: no collection need walk them again
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
