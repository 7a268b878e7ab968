"""Wholestep: the whole training step, one program, written in ordinary NumPy."""

from typing import TYPE_CHECKING, Any

from wholestep.collector import without_garbage_collection

with without_garbage_collection(lasting=True):  # the objects of modules are permanent
    from wholestep import errors, nn, numpy, optim, random, tree
    from wholestep.boundary.answers import unknown
    from wholestep.boundary.public import boundary, published
    from wholestep.dims import Dim
    from wholestep.errors import WholestepError
    from wholestep.frontend.batching import all_gather, axis_index, pmean, psum, vmap
    from wholestep.frontend.check import gradcheck
    from wholestep.frontend.checkpoint import checkpoint
    from wholestep.frontend.control import cond, fori_loop, scan, switch, while_loop
    from wholestep.frontend.custom import composite, custom_jvp, custom_vjp
    from wholestep.frontend.custom_batching import custom_vmap
    from wholestep.frontend.custom_gradient import custom_gradient
    from wholestep.frontend.derivatives import jvp, linearize, vjp
    from wholestep.frontend.dispatch import HOOKS
    from wholestep.frontend.exchanges import all_to_all, pmax, pmin, ppermute
    from wholestep.frontend.frontier import frontier_grad
    from wholestep.frontend.gradients import grad, trace_gradients, value_and_grad
    from wholestep.frontend.implicit import custom_linear_solve, custom_root
    from wholestep.frontend.jacobian_parts import elementwise_grad, hvp
    from wholestep.frontend.jacobians import hessian, jacfwd, jacobian, jacrev
    from wholestep.frontend.marks import capture, keep, recompute, stop_gradient
    from wholestep.frontend.precision import autocast
    from wholestep.frontend.printing import print
    from wholestep.frontend.scans import associative_scan, map
    from wholestep.frontend.shapes import ShapeDtype
    from wholestep.frontend.transposition import closure_convert, linear_transpose
    from wholestep.lazy import late

if TYPE_CHECKING:  # names that are resolved lazily at run time
    from wholestep.frontend.inspect import eval_shape, trace
    from wholestep.frontend.jit import jit
    from wholestep.interop.jax.function import from_jax
    from wholestep.interop.onnx.load import from_onnx
    from wholestep.interop.torch.function import from_torch_export
    from wholestep.train.handover.to_file import to_file
    from wholestep.train.handover.to_jax import to_jax
    from wholestep.train.handover.to_tensorflow import to_tensorflow
    from wholestep.train.handover.to_torch import to_torch
    from wholestep.train.state.offloaded_state import stacked
    from wholestep.train.state.result import block_until_ready
    from wholestep.train.step.compile import compile

__version__ = "0.1.0"

__all__ = [
    "Dim",
    "ImageFolder",
    "Loader",
    "ShapeDtype",
    "WholestepClassifier",
    "WholestepError",
    "WholestepRegressor",
    "all_gather",
    "all_to_all",
    "associative_scan",
    "autocast",
    "axis_index",
    "block_until_ready",
    "calibrate",
    "capture",
    "checkpoint",
    "closure_convert",
    "compile",
    "composite",
    "concat_rows",
    "cond",
    "custom_gradient",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "custom_vmap",
    "elementwise_grad",
    "encode_labels",
    "errors",
    "estimate",
    "eval_shape",
    "fit",
    "fori_loop",
    "from_jax",
    "from_onnx",
    "from_torch_export",
    "frontier_grad",
    "grad",
    "gradcheck",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "keep",
    "linear_transpose",
    "linearize",
    "lr_find",
    "map",
    "mean_over",
    "mesh",
    "nn",
    "numpy",
    "optim",
    "params",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "print",
    "psum",
    "random",
    "random_split",
    "recompute",
    "scan",
    "scipy",
    "stacked",
    "stop_gradient",
    "switch",
    "testing",
    "to_file",
    "to_jax",
    "to_tensorflow",
    "to_torch",
    "trace",
    "trace_gradients",
    "tree",
    "unroll",
    "update_batch_norm",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

LAZY = {
    "scipy": "wholestep.scipy",
    "testing": "wholestep.testing",
    "mesh": "wholestep.mesh",
    "train": "wholestep.train.step.compile",
    "ImageFolder": "wholestep.train.data.image_folder",
    "Loader": "wholestep.train.data.loader",
    "block_until_ready": "wholestep.train.state.result",
    "calibrate": "wholestep.train.calibrate",
    "compile": "wholestep.train.step.compile",
    "concat_rows": "wholestep.train.data.parts",
    "encode_labels": "wholestep.train.data.labels",
    "estimate": "wholestep.train.step.estimate",
    "eval_shape": "wholestep.frontend.inspect",
    "fit": "wholestep.train.loop.fit",
    "from_jax": "wholestep.interop.jax.function",
    "from_torch_export": "wholestep.interop.torch.function",
    "from_onnx": "wholestep.interop.onnx.load",
    "jit": "wholestep.frontend.jit",
    "lr_find": "wholestep.train.loop.lr_finder",
    "mean_over": "wholestep.train.loop.averages",
    "params": "wholestep.nn.ambient",
    "random_split": "wholestep.train.data.parts",
    "stacked": "wholestep.train.state.offloaded_state",
    "to_file": "wholestep.train.handover.to_file",
    "to_jax": "wholestep.train.handover.to_jax",
    "to_tensorflow": "wholestep.train.handover.to_tensorflow",
    "to_torch": "wholestep.train.handover.to_torch",
    "trace": "wholestep.frontend.inspect",
    "unroll": "wholestep.train.step.unroll",
    "update_batch_norm": "wholestep.train.loop.batch_statistics",
    "WholestepClassifier": "wholestep.train.sklearn.estimators",
    "WholestepRegressor": "wholestep.train.sklearn.estimators",
    "load_ipython_extension": "wholestep.notebook.extension",
    "unload_ipython_extension": "wholestep.notebook.extension",
}
"""The modules of names that are imported at their first use, since they cost more than a blink."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise unknown("ws", name)
    return late("wholestep", name, LAZY[name])


HOOKS.scipy_part = lambda part: getattr(__getattr__("scipy"), part)


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])


globals().update(__getattr__=boundary(__getattr__))
globals().update({name: published(globals()[name]) for name in __all__ if name not in LAZY})
