"""Somebody presses Ctrl-C while a loop runs."""

import signal
import threading


def press():
    """The signal that a terminal sends, to the thread that hears it."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


class Pressing:
    """An instance in whose run it happens."""

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
