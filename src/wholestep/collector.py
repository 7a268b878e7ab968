"""The garbage collector, which waits while many objects are made, all of them in use until the work ends."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection(lasting: bool = False) -> Iterator[None]:
    """Suspend garbage collection; objects that are `lasting` are old at once, so that the next one skips them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting and not gc.get_freeze_count():  # frozen objects of the caller's would be thawed
            gc.freeze()
            gc.unfreeze()
        if collecting:
            gc.enable()
