"""The public names, by the page of the reference on which each of them stands."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

TOPICS = {
    "derivatives": (
        "Derivatives",
        """grad value_and_grad vjp jvp linearize linear_transpose jacobian jacfwd jacrev hessian hvp elementwise_grad
        vmap gradcheck trace_gradients frontier_grad""",
    ),
    "marks": (
        "Marks and rules of your own",
        """stop_gradient checkpoint keep recompute autocast custom_vjp custom_jvp custom_gradient custom_vmap
        custom_root custom_linear_solve closure_convert composite capture print""",
    ),
    "control": ("Loops and branches", "scan associative_scan map fori_loop while_loop cond switch"),
    "programs": ("Programs and shapes", "jit trace eval_shape ShapeDtype Dim block_until_ready"),
    "training": (
        "Training",
        """compile fit Loader ImageFolder random_split concat_rows params lr_find mean_over update_batch_norm
        encode_labels unroll stacked estimate calibrate WholestepClassifier WholestepRegressor""",
    ),
    "processes": ("Several processes", "psum pmean pmax pmin all_gather ppermute all_to_all axis_index"),
    "libraries": ("Other libraries", "from_torch_export from_jax from_onnx to_torch to_jax to_tensorflow to_file"),
}
"""Each page of names of `wholestep` itself: its title, and the names in the order in which it shows them."""

STEP = """run predict attach set replace reset save load load_state export explain cost profile verify diagnose source
specialize averaged flush"""
"""The methods of a compiled step."""

MODULES = {
    "wholestep.nn.init": """constant delta_orthogonal fans gain_of kaiming_normal kaiming_uniform lecun_normal
        lecun_uniform normal ones orthogonal truncated_normal uniform variance_scaling xavier_normal
        xavier_uniform zeros""",
    "wholestep.nn.metrics": """Accuracy ConfusionMatrix Mean R2 accuracy confusion_matrix f1 precision r2 recall
        top_k_accuracy""",
    "wholestep.nn.models": """GPT2 Llama BERT DistilBERT ResNet ViT ConvNeXt MobileNetV3 MLPMixer
        WhisperEncoder load_folder save_folder""",
    "wholestep.tree": """flatten leaves leaves_with_path map map_with_path paths prefix reduce register structure
        transpose unflatten""",
}
"""Public modules of a public package, with the names that are for users."""

LOOP = {
    "wholestep.train.loop.callbacks": "Callback EarlyStopping Checkpoint BestCheckpoint",
    "wholestep.train.loop.evaluation": "Evaluate",
    "wholestep.train.loop.loggers": "ConsoleLogger JsonLogger TensorBoardLogger",
    "wholestep.train.loop.services": "WandbLogger MLflowLogger OptunaPruning TqdmProgress",
}
"""Classes that `fit` is given, by the module that users import them from; they stand on the page "callbacks"."""

LAWS = {"wholestep.testing.laws": "check LawError"}
"""The laws that a user asks for, among the parts that they are made of."""

SPACES = {
    "nn": ("Layers and losses", "wholestep.nn"),
    "init": ("Initial values", "wholestep.nn.init"),
    "metrics": ("Metrics", "wholestep.nn.metrics"),
    "models": ("Published models", "wholestep.nn.models"),
    "optim": ("Optimizers and schedules", "wholestep.optim"),
    "random": ("Random numbers", "wholestep.random"),
    "tree": ("Trees", "wholestep.tree"),
    "mesh": ("Meshes", "wholestep.mesh"),
    "stats": ("Distributions", "wholestep.scipy.stats"),
    "testing": ("Laws for your own primitives", "wholestep.testing.laws"),
}
"""Each page of a public module: its title, and the module."""

COVERED = ("wholestep.numpy", "wholestep.scipy")
"""Modules with the names of other libraries, which coverage.md lists."""

ERRORS = "../troubleshooting"
"""The page of the errors and warnings, by name, which is written by hand."""

ELSEWHERE = {"wholestep.dims": "SymbolicError", "wholestep.runtime.cache.code_cache": "CacheWarning"}
"""Errors and warnings that are defined where they are raised."""


@dataclass(frozen=True)
class Entry:
    """One public name: the page with its section, the name as users write it, and its value."""

    page: str
    name: str
    value: Any

    @property
    def anchor(self) -> str:
        """The anchor of its section, which no other name of its page has: classes and functions may differ by case."""
        short = self.name.split(".")[-1]
        return short.lower() if short.islower() or self.page == ERRORS else f"{short.lower()}-class"

    @property
    def link(self) -> str:
        """The way to its section from another page of the reference."""
        return f"{self.page}.md#{self.anchor}"

    @property
    def first(self) -> str:
        """The first sentence of its docstring."""
        paragraph = " ".join((inspect.getdoc(self.value) or "").split("\n\n")[0].split())
        head, stop, _ = paragraph.partition(". ")
        return head + "." if stop else paragraph


def entries() -> list[Entry]:
    """All public names, in the order of the pages and of the names on each."""
    ws = importlib.import_module("wholestep")
    step = importlib.import_module("wholestep.train.step.step").Step
    topics = [(page, name) for page, (_, names) in TOPICS.items() for name in names.split()]
    found = [Entry(page, f"ws.{name}", getattr(ws, name)) for page, name in topics]
    found += [Entry("step", f"step.{name}", getattr(step, name)) for name in STEP.split()]
    for module, names in LOOP.items():
        short = module.removeprefix("wholestep.train.loop.")
        space = importlib.import_module(module)
        found += [Entry("callbacks", f"{short}.{name}", getattr(space, name)) for name in names.split()]
    for page, (_, module) in SPACES.items():
        space = importlib.import_module(module)
        prefix = module.replace("wholestep.", "" if module.split(".")[1] in ("nn", "optim") else "ws.")
        found += [Entry(page, f"{prefix}.{name}", getattr(space, name)) for name in public_of(space)]
    return found + [Entry(ERRORS, f"ws.errors.{cls.__name__}", cls) for cls in errors()]


def public_of(module: ModuleType) -> list[str]:
    """The names of a module that are for users, without modules of its own."""
    stated = {**MODULES, **LAWS}
    listed = stated[module.__name__].split() if module.__name__ in stated else module.__all__
    return [name for name in listed if not isinstance(getattr(module, name), ModuleType)]


def errors() -> list[type[BaseException]]:
    """The registry of errors and warnings that users meet: the classes of `wholestep.errors`, and a few others."""
    values = [*vars(importlib.import_module("wholestep.errors")).values()]
    values += [getattr(importlib.import_module(module), name) for module, name in ELSEWHERE.items()]
    return [value for value in values if isinstance(value, type) and issubclass(value, BaseException)]
