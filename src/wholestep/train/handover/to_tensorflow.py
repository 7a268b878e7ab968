"""TensorFlow: a function or a step as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.export.python.tensorflow import TENSORFLOW
from wholestep.train.handover.subjects import Check, subject_of
from wholestep.train.handover.to_jax import installed


def to_tensorflow(f: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """A function, model or step as a function of tensors, which `tf.function` compiles and `tf.GradientTape` records.

    It takes and returns trees as `f` does here, for arguments of the shapes and dtypes of the examples, which may be
    tensors, variables and arrays; a step becomes `step(state, batch)`, as `to_jax` says.

    Shapes: those of the examples, which are arrays or `ShapeDtype`s.
    Raises: UnsupportedError for operations that TensorFlow has no words for, ValueError for a tensor of another dtype,
    MissingExtraError where TensorFlow is not installed.

    >>> import numpy as np, wholestep as ws
    >>> f = ws.to_tensorflow(lambda x: np.sin(x) * x, np.float32(0.5))
    >>> round(float(f(np.float32(0.5))), 4)
    0.2397
    """
    tensorflow = installed("tensorflow")
    subject = subject_of(f, examples, "to_tensorflow")
    return subject.function(TENSORFLOW, Check(tensorflow.as_dtype, tensorflow.convert_to_tensor))
