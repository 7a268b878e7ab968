"""The import: the modules that are loaded on demand, and the effect on the garbage collector of the process."""

import gc
import pickle
import subprocess
import sys

import pytest

import wholestep as ws
from wholestep.collector import without_garbage_collection

WAITING = ("wholestep.compiler", "wholestep.lower", "wholestep.runtime", "wholestep.train", "llvmlite", "numpy.random")


def printed(code: str, *options: str) -> str:
    """The output of a new process, whose interpreter has these options."""
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_compiler_waits_until_it_is_asked_for():
    assert printed(f"import sys, wholestep; print([m for m in {WAITING} if m in sys.modules])") == "[]"


def test_packages_of_late_names_are_attributes():
    assert printed("import wholestep as ws; print(ws.train.state.loss_scaling.Scaling.__name__)") == "Scaling"


def test_the_compiler_may_be_asked_for_first_inside_a_derivative():
    code = "import numpy as np, wholestep as ws; print(ws.grad(lambda x: ws.jit(np.sin)(x))(0.0))"
    assert float(printed(code)) == 1.0


EACH_FIRST = """
import importlib, pathlib, sys
import wholestep.nn
inside = lambda: [name for name in sys.modules if name.startswith("wholestep.nn")]
folder = pathlib.Path(wholestep.nn.__file__).parent
for file in sorted(folder.rglob("*.py")):
    for name in inside():
        del sys.modules[name]
    parts = file.relative_to(folder.parent.parent).with_suffix("").parts
    importlib.import_module(".".join(parts).removesuffix(".__init__"))
print(len(inside()) > 0)
"""


def test_any_module_of_layers_may_be_imported_first():
    """A new process that reads a model from a pickle imports the module of a layer first."""
    assert printed(EACH_FIRST) == "True"


def test_a_pickled_layer_is_read_in_a_new_process(tmp_path):
    file = tmp_path / "layer.pkl"
    file.write_bytes(pickle.dumps(ws.nn.Sequential(ws.nn.Linear(3, 2, key=0), ws.nn.LayerNorm(2))))
    code = f"import pickle; print(pickle.load(open({str(file)!r}, 'rb')).layers[0].weight.shape)"
    assert printed(code) == "(3, 2)"


WITHOUT_DOCSTRINGS = """
import numpy as np, wholestep as ws
def loss(model, batch):
    return np.mean(np.asarray(model(batch)) - np.array([1.0, 2.0, 3.0])) + np.sum(np.zeros(3))
model, batch = ws.nn.Sequential(ws.nn.Conv1d(2, 3, 1, key=0), ws.nn.relu), np.ones((1, 2, 3), np.float32)
print(type(ws.compile(loss, model, optimizer=ws.optim.adam(1e-3), batch=batch)).__name__)
"""


def test_docstrings_may_be_left_out(tmp_path):
    """Signatures of NumPy's C functions and documentation of layers are read from docstrings, and may be missing."""
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_DOCSTRINGS, encoding="utf-8")
    assert printed(f"import runpy; runpy.run_path({str(script)!r})", "-OO") == "Step"


@pytest.mark.parametrize("name", ["jit", "compile", "trace", "eval_shape", "stacked", "block_until_ready"])
def test_a_late_name_is_one_object(name):
    found = getattr(ws, name)
    assert found is getattr(ws, name) and pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("lasting", [False, True])
def test_the_collector_is_as_it_was(lasting):
    for start, collecting in ((gc.disable, False), (gc.enable, True)):
        start()
        with without_garbage_collection(lasting):
            assert not gc.isenabled()
        assert gc.isenabled() == collecting


def test_what_lasts_is_old():
    with without_garbage_collection(lasting=True):
        made = [[]]
    assert any(x is made for x in gc.get_objects(generation=2)) and not gc.get_freeze_count()


def test_objects_that_were_frozen_stay_so():
    gc.freeze()
    try:
        with without_garbage_collection(lasting=True):
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
