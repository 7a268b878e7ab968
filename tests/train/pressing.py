"""Ctrl-C while a loop runs."""

import signal
import threading


def press():
    """Send the signal of Ctrl-C to the main thread, which handles it."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


class Pressing:
    """An instance that receives Ctrl-C at the beginning of its run."""

    def __init__(self, instance):
        self.instance = instance

    def __call__(self, arrays, strict=False):
        press()
        return self.instance(arrays, strict)

    def stop(self):
        self.instance.stop()

    @property
    def trips(self):
        return self.instance.trips
