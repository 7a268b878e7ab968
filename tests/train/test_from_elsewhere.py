"""Hooks of other libraries, classes in place of objects, and files of other formats, which users give."""

import numpy as np
import pytest
from tests.train.test_fit import fit, loader, made

from wholestep import nn
from wholestep.errors import CheckpointError, DtypeError, UnknownNameError
from wholestep.train.loop.callbacks import EarlyStopping
from wholestep.train.loop.run import Callback


@pytest.mark.parametrize(("theirs", "ours"), [("on_epoch_end", "on_epoch"), ("on_train_batch_end", "on_step")])
def test_hooks_of_other_libraries_are_answered_by_ours(theirs, ours):
    hook = {theirs: lambda self, *given: None}
    with pytest.raises(UnknownNameError, match=rf"has {theirs}, which nothing calls(.|\n)*hint: {ours}\(run\) takes"):
        fit(made(), loader(), epochs=1, callbacks=[type("Theirs", (Callback,), hook)()])
    with pytest.raises(DtypeError, match=rf"is a Theirs, and a callback has hooks(.|\n)*{ours}\(run\) takes the place"):
        fit(made(), loader(), epochs=1, callbacks=[type("Theirs", (), hook)()])


def test_the_class_of_a_callback_is_no_callback():
    with pytest.raises(DtypeError, match=r"is the class EarlyStopping(.|\n)*hint: EarlyStopping\(\.\.\.\)"):
        fit(made(), loader(), epochs=1, callbacks=[EarlyStopping])


def test_files_of_other_formats_are_named(tmp_path):
    np.savez(tmp_path / "weights.npz", weight=np.ones(3))
    np.save(tmp_path / "weight.npy", np.ones(3))
    for file, kind in (("weights.npz", "a zip archive, as torch"), ("weight.npy", "an array of np")):
        with pytest.raises(CheckpointError, match=rf"it is {kind}.*, not a safetensors file"):
            nn.load(nn.Linear(3, 1, key=0), tmp_path / file)
