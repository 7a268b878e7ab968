"""Jobs that are run several times: Ctrl-C at a certain step, programs that are compiled once, states that are equal."""

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.train.pressing import press

from wholestep import config
from wholestep.train.loop.run import Callback


class Press(Callback):
    """Ctrl-C after so many steps."""

    def __init__(self, at):
        self.at = at

    def on_step(self, run):
        if run.step.steps == self.at:
            press()


def pressing(fit, at):
    """`fit` with Ctrl-C after a number of steps."""

    def pressed(*args, callbacks=(), **options):
        return fit(*args, callbacks=[*callbacks, Press(at)], **options)

    return pressed


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A cache of compiled programs for the tests of a module."""
    folder = str(tmp_path_factory.mktemp("programs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "cache_place", lambda: folder)
        yield


def same_bits(one, other):
    """Test whether two checkpoints hold the same arrays, bit for bit."""
    mine, theirs = load_file(one), load_file(other)
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
