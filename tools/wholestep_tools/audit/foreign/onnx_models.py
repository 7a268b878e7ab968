"""`wholestep audit onnxmodels`: networks that PyTorch exports give ONNX Runtime's numbers here, and train."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.foreign.torch_networks import NETWORKS
from wholestep_tools.audit.record import record

CLAIM = "A network that PyTorch exports gives ONNX Runtime's numbers here within 1e-5 of the largest, and trains"
NEAR = 1e-5
STEPS = 20
EXPORTERS = {"torch.export": True, "TorchScript": False}
"""The two exporters of PyTorch, and their values of `dynamo=`."""


def exported(name: str, dynamo: bool, folder: Path) -> tuple[Path, tuple[Any, ...]]:
    """The file of a network, and the arguments of its example."""
    import torch

    torch.manual_seed(0)
    network, example = NETWORKS[name](torch)
    path = folder / "model.onnx"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(network.eval(), example, str(path), dynamo=dynamo)
    return path, tuple([x.numpy() for x in example])


def runtime_outputs(path: Path, example: tuple[Any, ...]) -> list[Any]:
    """The outputs of a model in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return list(session.run(None, dict(zip(names, example, strict=True))))


def distance(made: Any, wanted: list[Any]) -> float:
    """The largest difference of outputs, of the largest number in them."""
    found = made if isinstance(made, tuple) else (made,)
    assert [x.shape for x in found] == [y.shape for y in wanted]
    return max([float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-30)) for x, y in zip(found, wanted, strict=True)])


def quantized(path: Path, example: tuple[Any, ...], static: bool) -> Path:
    """A model in 8 bits, by ONNX Runtime's tools.

    Weights have 7: on machines without instructions for them, ONNX Runtime adds the products in 16, which saturate.
    """
    from onnxruntime import quantization

    class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            import onnx

            name = onnx.load(path).graph.input[0].name
            self.rows = iter([{name: example[0]}])

        def get_next(self) -> Any:
            return next(self.rows, None)

    made = path.with_name("quantized.onnx")
    if static:
        quantization.quantize_static(str(path), str(made), Calibration(), reduce_range=True)
    else:
        quantization.quantize_dynamic(str(path), str(made), reduce_range=True)
    return made


def trained(path: Path, example: tuple[Any, ...]) -> tuple[float, float]:
    """The first and the last loss of a few steps of Adam towards numbers drawn at random."""
    f, params, buffers = ws.from_onnx(path, training=True)
    shape = f(params, buffers, *example, key=ws.random.key(0))[0].shape
    wanted = np.random.default_rng(0).random(shape, np.float32)

    def loss(params: Any, buffers: Any, batch: Any, *, key: Any) -> Any:
        y, new = f(params, buffers, *batch, key=key)
        return ((y - wanted) ** 2).mean(), new

    step = ws.compile(loss, params, buffers=buffers, optimizer=ws.optim.adam(3e-3), batch=example)
    losses = [float(step(example).loss) for _ in range(STEPS)]
    return losses[0], losses[-1]


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many of the networks, each by both exporters; the perceptron in 8 bits as well."""
    seen, rows = Seen(), dict[str, dict[str, float]]()
    for name in list(NETWORKS)[:count]:
        for exporter, dynamo in EXPORTERS.items():
            with TemporaryDirectory() as folder:
                examine(seen, rows, f"{name} by {exporter}", *exported(name, dynamo, Path(folder)))
    if count >= len(NETWORKS):
        for way, static in {"static": True, "dynamic": False}.items():
            with TemporaryDirectory() as folder:
                path, example = exported("MLP", False, Path(folder))
                examine(seen, rows, f"MLP in 8 bits, {way}", quantized(path, example, static), example, train=False)
    packages = {name: importlib.metadata.version(name) for name in ("torch", "onnx", "onnxruntime")}
    return record("onnxmodels", CLAIM, seen.checks, seen.failures, seed=seed, networks=rows, **packages)


def examine(seen: Seen, rows: Any, name: str, path: Path, example: tuple[Any, ...], train: bool = True) -> None:
    """One model: its numbers, plain and compiled, and whether its loss falls."""
    seen.count("models")
    wanted = runtime_outputs(path, example)
    f, params = ws.from_onnx(path)
    row = rows[name] = {"plain": distance(f(params, *example), wanted)}
    row["compiled"] = distance(ws.jit(f)(params, *example), wanted)
    for way in ("plain", "compiled"):
        seen.count(f"{way} runs")
        seen.right(row[way] <= NEAR, f"{name}: {way} numbers differ by {row[way]:.1e}")
    if train:
        row["first loss"], row["last loss"] = trained(path, example)
        seen.count("trained")
        seen.right(row["last loss"] < row["first loss"], f"{name}: the loss does not fall")


AUDIT = Audit(
    "onnxmodels",
    audit,
    len(NETWORKS),
    "networks that PyTorch exports as ONNX",
    "Eight small networks (ResNet, MobileNet, ViT, BERT, GPT-2, a detector, an LSTM under a GRU, a perceptron) are "
    "exported by both of PyTorch's exporters, and the perceptron again in 8 bits by the tools of ONNX Runtime (7 for "
    "weights, whose products its kernels for older machines would saturate). Each is "
    "loaded with `ws.from_onnx`, run plain and compiled beside ONNX Runtime, and trained for 20 compiled steps.",
)
