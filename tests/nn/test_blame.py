"""An error in a part of a model says which part it is, and stays the error that it was."""

import inspect

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import ShapeError, TreeError

X = np.ones((2, 3), np.float32)


class Broken(nn.Module):
    def __init__(self, error):
        self.error = error

    def __call__(self, x, *, key=None):
        """Raise the error of the layer."""
        raise self.error


def nested():
    inner = nn.Sequential(nn.Linear(3, 4, key=0), nn.Linear(5, 2, key=1))
    return {"body": nn.Sequential(nn.relu, inner)}


CALLS = {
    "eagerly": lambda model: model["body"](X),
    "differentiated": lambda model: ws.grad(lambda model: np.sum(model["body"](X)))(model),
    "jit": lambda model: ws.jit(lambda model: model["body"](X))(model),
    "compiled": lambda model: ws.compile(lambda model, x: np.mean(model["body"](x)), model, batch=X),
}


@pytest.mark.parametrize("how", CALLS)
def test_the_path_is_that_of_the_part(how):
    with pytest.raises(ShapeError, match="linear: x is") as caught:
        CALLS[how](nested())
    assert caught.value.__notes__ == ["  in layers[1].layers[1] (Linear) of Sequential"]


def test_errors_of_any_kind_pass_on_as_they_are():
    error = KeyError("mine")
    error.add_note("a note of my own")
    model = nn.Sequential(nn.Identity(), Broken(error))
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            model(X)
        assert caught.value is error
        assert error.__notes__ == ["a note of my own", "  in layers[1] (Broken) of Sequential"]


def test_a_part_by_itself_has_no_path():
    with pytest.raises(ShapeError) as caught:
        nn.Linear(5, 2, key=1)(X)
    assert not hasattr(caught.value, "__notes__")


def test_a_call_looks_as_it_was_written():
    assert str(inspect.signature(Broken.__call__)) == "(self, x, *, key=None)"
    assert Broken.__call__.__doc__ == "Raise the error of the layer."


def test_what_changed_in_a_model_is_named_by_a_jit_and_a_loop():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3), nn.Dropout(0.1), key=0)
    moved = nn.join(model, buffers={name: x + 1 for name, x in nn.buffers(model).items()})
    other = nn.Sequential(*model.layers[:2], nn.Dropout(0.2))
    changes = {
        "layers[1].mean: another buffer array": moved,
        "layers: list of 0, 1, 2, then list of 0, 1": nn.Sequential(*model.layers[:2]),
        "layers[2].p: 0.1, then 0.2": other,
        "Sequential of layers, then Sequential of layers, training": model.eval(),
    }
    for words, changed in changes.items():
        run = ws.jit(lambda part: part["m"].layers[0].bias)
        run({"m": model}), run({"m": changed})
        assert words in run.reasons[1] and run.reasons[1].startswith(
            "the structure of the arguments changed: argument 0"
        )
        with pytest.raises(TreeError) as refused:
            ws.scan(lambda carry, _, changed=changed: ({"m": changed}, None), {"m": model}, None, length=2)
        assert "scan: the step changes the structure of the carry: carry.m" in str(refused.value)
        assert words in str(refused.value)
        assert ("hint: " in str(refused.value)) is (changed is moved)
