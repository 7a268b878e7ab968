"""Every wrong use of a compiled step, and the message for it; the text is pinned, except for line numbers."""

import re

import numpy as np
import pytest
from tests.train.models import perceptron

import wholestep as ws
from wholestep.errors import WholestepError

MODEL = perceptron()
BATCH = {k: v[:6] for k, v in MODEL.data.items()}
ROWS = {k: ws.ShapeDtype((ws.Dim("B"), *v.shape[1:]), v.dtype) for k, v in BATCH.items()}
UNEVEN = {**BATCH, "y": BATCH["y"][:5]}


def total(params):
    return sum(x.sum() for x in params.values())


def step(**options):
    settings = {"optimizer": ws.optim.adam(0.01), "batch": BATCH, "device": "reference", **options}
    return ws.compile(settings.pop("loss", MODEL.loss), settings.pop("params", MODEL.params), **settings)


CASES = {
    "logger_that_is_text": lambda: ws.fit(step(), MODEL.data, logger="log", progress=None),
    "checkpoint_that_is_a_number": lambda: ws.fit(step(), MODEL.data, checkpoint=3, progress=None),
    "callback_without_a_list": lambda: ws.fit(step(), MODEL.data, callbacks=print, progress=None),
    "metrics_that_are_numbers": lambda: ws.fit(step(), MODEL.data, validation=MODEL.data, metrics={"a": 1}),
    "key_of_a_loader_that_is_text": lambda: ws.Loader(MODEL.data, batch_size=6, key="a"),
    "batch_of_another_dtype": lambda: step()({**BATCH, "x": BATCH["x"].astype(np.float64)}),
    "batch_that_would_lose_fractions": lambda: step(loss=lambda p, i: total(p) * i[0], batch=np.zeros(2, np.int64))(
        np.array([0.5, 1.0])
    ),
    "batch_that_would_lose_imaginary_parts": lambda: step()({**BATCH, "x": BATCH["x"].astype(np.complex64)}),
    "assigned_rate": lambda: setattr(step(), "lr", 0.1),
    "assigned_parameters": lambda: setattr(step(), "params", MODEL.params),
    "assigned_count": lambda: setattr(step(), "steps", 0),
    "batch_of_another_shape": lambda: step(strict=True)({**BATCH, "x": BATCH["x"][:3]}),
    "batch_of_other_sizes": lambda: step()({**BATCH, "x": BATCH["x"][:3]}),
    "batch_of_sizes_to_broadcast": lambda: step()({**BATCH, "x": BATCH["x"][:1]}),
    "batch_without_a_name": lambda: step()({"x": BATCH["x"]}),
    "batch_in_another_container": lambda: step()((BATCH["x"], BATCH["y"])),
    "batch_of_text": lambda: step()({**BATCH, "x": "text"}),
    "batch_of_another_machine": lambda: step()({**BATCH, "x": BATCH["x"].astype(">f4")}),
    "hyper_parameter_that_is_not_there": lambda: step().set(rate=0.1),
    "hyper_parameter_that_is_no_number": lambda: step().set(lr="fast"),
    "hyper_parameter_that_is_a_schedule": lambda: step(optimizer=ws.optim.sgd(lambda t: 0.1)).set(lr=0.1),
    "parameters_of_another_shape": lambda: step().set(params={**MODEL.params, "b1": np.zeros(6, np.float32)}),
    "state_without_a_part": lambda: step().load_state({"params": MODEL.params}),
    "data_of_different_lengths": lambda: step().run({**MODEL.data, "y": MODEL.data["y"][:5]}),
    "data_of_another_structure": lambda: step().run(MODEL.data["x"]),
    "data_of_another_dtype": lambda: step().run({**MODEL.data, "y": MODEL.data["y"].astype(np.float64)}),
    "data_too_short": lambda: step().run(BATCH, 1, 7, drop_last=True),
    "data_without_rows": lambda: step(loss=lambda p, k: k * total(p), batch=1.0).run(1.0),
    "no_epochs": lambda: step().run(MODEL.data, 0),
    "kernels_of_the_reference": lambda: step().kernels,
    "device_that_nobody_knows": lambda: step(device="abacus"),
    "no_memory_budget": lambda: step(memory_budget=100),
    "no_other_precision": lambda: step(precision="float8"),
    "no_such_guard": lambda: step(guard="everything"),
    "no_steps": lambda: step(steps_per_call=0),
    "batch_not_stacked": lambda: step(steps_per_call=3),
    "integer_parameter": lambda: step(params={**MODEL.params, "n": 3}),
    "parameter_that_is_text": lambda: step(params={**MODEL.params, "name": "text"}),
    "captures_without_labels": lambda: step(captures=True),
    "capture_that_is_not_there": lambda: step(captures=("h",)),
    "loss_without_aux": lambda: step(has_aux=True),
    "loss_that_is_no_scalar": lambda: step(loss=lambda p, b: p["w1"]),
    "buffers_of_another_type": lambda: step(
        loss=lambda p, b, x: (np.sum(p["b1"]), {"n": b["n"] + 0.5}), buffers={"n": np.array(1)}
    ),
    "buffers_of_another_shape": lambda: step(
        loss=lambda p, b, x: (np.sum(p["b1"]), {"n": np.stack([b["n"]] * 2)}), buffers={"n": np.ones(3)}
    ),
    "buffers_without_one": lambda: step(
        loss=lambda p, b, x: (np.sum(p["b1"]), {"n": b["n"], "k": b["n"]}), buffers={"n": np.array(1), "m": np.ones(3)}
    ),
    "loss_with_a_key_by_position": lambda: step(loss=lambda p, b, key: total(p)),
    "loss_without_a_batch": lambda: step(loss=lambda p: total(p)),
    "loss_without_buffers": lambda: step(loss=lambda p, b: total(p), buffers={"n": np.array(1)}),
    "optimizer_that_widens": lambda: step(optimizer=Widening()),
    "optimizer_without_a_state": lambda: step(
        loss=lambda p, b: total(p), params={"a": np.ones(2), "b": np.ones(3)}, optimizer=Stateless()
    ),
    "optimizer_that_counts_by_itself": lambda: step(optimizer=Counting()),
    "hyper_parameter_in_a_copy": lambda: step().hyper.__setitem__("lr", 0.5),
    "key_that_is_a_fraction": lambda: step(key=1.5),
    "key_that_is_set_to_text": lambda: step().set(key="seed"),
    "flag_that_is_text": lambda: step(allow_unused="False"),
    "flag_of_a_loader_that_is_text": lambda: ws.Loader(MODEL.data, batch_size=6, shuffle="False"),
    "flag_of_a_layer_that_is_text": lambda: ws.nn.Linear(3, 1, bias="False", key=0),
    "number_of_a_layer_that_is_text": lambda: ws.nn.LayerNorm(3, eps="1e-5"),
    "number_of_a_layer_to_be_drawn_that_is_text": lambda: ws.nn.MultiHeadAttention(4, 2, rope="yes"),
    "activation_that_is_text": lambda: ws.nn.MLP([3, 4, 1], activation="relu", key=0),
    "dtype_that_is_none": lambda: ws.nn.LayerNorm(3, dtype="bf16"),
    "dtype_of_a_shape_that_is_none": lambda: ws.ShapeDtype((3,), "half precision"),
    "path_that_is_a_number": lambda: step().save(3),
    "function_that_is_a_number": lambda: ws.scan(3, 1.0, np.ones(3)),
    "traced_number": lambda: ws.trace(3),
    "attached_number": lambda: step().attach(3),
    "file_of_a_number": lambda: ws.to_file(3, "f.onnx"),
    "rate_found_for_a_number": lambda: ws.lr_find(3, BATCH),
    "schedule_of_lists": lambda: step(optimizer=ws.optim.sgd(lambda count: [0.1])),
    "flag_of_a_run_that_is_text": lambda: step().run(MODEL.data, drop_last="False"),
    "batch_by_names": lambda: step()(x=BATCH["x"], y=BATCH["y"]),
    "nothing_to_train": lambda: step(loss=lambda p, b: np.mean(b["x"]), params={}),
    "optimizer_of_other_arguments": lambda: step(optimizer=Torchlike()),
    "optimizer_of_optax": lambda: step(optimizer=GradientTransformation()),
    "optimizer_of_torch": lambda: step(optimizer=Adam()),
    "parameters_of_torch": lambda: step(params=Adam()),
    "optimizer_class": lambda: step(optimizer=re.Pattern),
    "optimizer_of_parameters": lambda: ws.optim.adam(MODEL.params, lr=0.1),
    "line_search_over_several_batches": lambda: step(optimizer=ws.optim.accumulate(ws.optim.lbfgs(), 2)),
    "attached_without_its_key": lambda: step().attach(lambda p, n, *, key: ws.random.normal(key, (2,)))(1.0),
    "attached_with_a_key_to_spare": lambda: step().attach(lambda p, n: total(p))(1.0, key=1),
    "attached_with_no_key": lambda: step().attach(lambda p, n, *, key: total(p))(1.0, key="seed"),
    "sizes_that_disagree": lambda: step(batch=ROWS)(UNEVEN),
    "sizes_that_disagree_where_attached": lambda: step().attach(MODEL.loss, batch=ROWS)(UNEVEN),
    "sizes_that_disagree_in_the_loss": lambda: step(
        loss=lambda p, b: np.mean(b["x"] @ p["w1"] - b["y"]), batch={**ROWS, "y": ws.ShapeDtype((ws.Dim("C"), 5))}
    ),
    "sizes_that_disagree_in_a_function": lambda: of_any_size()(BATCH["x"], BATCH["x"][:5]),
    "memory_budget_for_any_rows": lambda: step(batch=ROWS, memory_budget="50%", device="cpu"),
    "estimate_within_a_budget_for_any_rows": lambda: ws.estimate(
        MODEL.loss, MODEL.params, batch=ROWS, memory_budget="50%"
    ),
    "microbatches_of_any_rows": lambda: step(batch=ROWS, microbatch=2),
    "compiled_inside_a_trace": lambda: ws.jit(lambda x: x + step()(BATCH).loss)(1.0),
}


def of_any_size():
    f = ws.jit(lambda x, y: x + y)
    f.any_size(ROWS["x"], ROWS["x"])
    return f


class Widening:
    def init(self, params):
        return None

    def update(self, grads, state, params):
        return {k: p - np.float64(0.1) * grads[k] for k, p in params.items()}, state


class Stateless(Widening):
    def update(self, grads, state, params):
        return {k: p - grads[k] for k, p in params.items()}


class Counting(Widening):
    count = 0

    def update(self, grads, state, params):
        self.count += 1
        return {k: p - grads[k] / self.count for k, p in params.items()}, state


class Torchlike(Widening):
    def update(self, grads, params):
        return params


class Adam:
    __module__ = "torch.optim.adam"


class GradientTransformation(Widening):
    __module__ = "optax._src.base"


@pytest.mark.parametrize("name", CASES)
def test_message(name, golden):
    with pytest.raises(WholestepError) as caught:
        CASES[name]()
    message = str(caught.value)
    assert "test_messages.py:" in message, "the message names the user's line"
    kinds = ", ".join(base.__name__ for base in type(caught.value).__mro__ if base.__module__ == "builtins")
    text = re.sub(r"\S*test_messages\.py:\d+", "test_messages.py", message)
    text = re.sub(r"the devices are .*", "the devices are ...", text)
    golden(f"{type(caught.value).__name__} ({kinds})\n{text}")


def test_an_explanation(golden):
    shown = step()
    shown.run(MODEL.data, 2, 6)
    shown.attach(lambda params, batch: batch["x"] @ params["w1"], batch=BATCH)
    text = re.sub(r"\d+\.\d\d s", "0.00 s", shown.explain())
    golden(text)
