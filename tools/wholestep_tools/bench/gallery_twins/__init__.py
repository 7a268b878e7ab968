"""The examples of the gallery as they are written by hand in JAX: one file for a group, imported only to be measured.

Each function of a group has the name of an example; it is given the example's module and makes its Twin.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

Call = Callable[[], Any]

PEER = "jax"
GROUPS = {
    "networks": (
        "contrastive",
        "dqn",
        "flow",
        "graphs",
        "linear_memory",
        "lora",
        "lstm_language",
        "meta_learning",
        "pole",
        "ppo",
        "recommender",
        "recurrent",
        "unet",
        "word_vectors",
    ),
    "chances": ("bayes", "diffusion", "gan", "hmc", "private", "reinforce", "two_hills", "vae"),
    "sciences": (
        "fluid",
        "hypergradient",
        "neural_ode",
        "optics",
        "orbit",
        "pendulum",
        "pinn",
        "quantum",
        "tensor_network",
        "time_series",
        "transport",
        "wing",
    ),
    "functions": (
        "derivatives",
        "finite_elements",
        "function_space",
        "gaussian_process",
        "logistic",
        "molecules",
        "rosenbrock",
    ),
    "likelihoods": (
        "bayesian_optimisation",
        "counts",
        "deep_gaussian_process",
        "hidden_markov",
        "independent",
        "latent_curve",
        "mixture",
        "natural_gradient",
    ),
}
TWINS = {name: group for group, names in GROUPS.items() for name in names}


class Twin(NamedTuple):
    """One step of an example in both libraries, and the numbers that both computed of the same parameters and data."""

    ours: Call
    theirs: Call
    numbers: tuple[Any, Any]


def twin(name: str, example: Any) -> Twin:
    """The twin of an example, of its name and module."""
    group = importlib.import_module(f"{__name__}.{TWINS[name]}")
    made: Twin = getattr(group, name)(example)
    return made
