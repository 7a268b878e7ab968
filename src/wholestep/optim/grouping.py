"""Different optimizers, or other hyper-parameters, for different parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholestep import tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.optim.hyper import Fields, override_fields
from wholestep.optim.paths import among_all, check_patterns, parameter_paths
from wholestep.optim.protocol import Optimizer, call_update, check_optimizer
from wholestep.words import type_in_words


class Divided(Fields):
    """The base of optimizers that divide the parameters into parts, each with its optimizer, or None for no updates.

    An optimizer gets its part as a dictionary by path; the state is a dictionary of the states of the optimizers.
    """

    def parts(self) -> dict[str, Any]:
        """The optimizer of each part."""
        raise NotImplementedError

    def assigned(self, params: Any) -> list[str]:
        """The part of each parameter."""
        raise NotImplementedError

    def init(self, params: Any) -> Any:
        """The states of all parts."""
        divided = self.divided(params, params)
        with among_all(params):
            return {part: None if opt is None else opt.init(divided[part]) for part, opt in self.parts().items()}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters and new states."""
        own, slopes = self.divided(params, params), self.divided(params, grads)
        moved: dict[str, Any] = {}
        new: dict[str, Any] = {}
        for part, optimizer in self.parts().items():
            if optimizer is None:
                moved[part], new[part] = own[part], None
            else:
                given = {**extras, **self.objective(part, params, extras)}
                with among_all(params):
                    moved[part], new[part] = call_update(optimizer, slopes[part], state[part], own[part], given)
        return self.joined(params, moved), new

    def objective(self, part: str, params: Any, extras: Mapping[str, Any]) -> dict[str, Any]:
        """The objective as a function of one part, with the current values of the other parts."""
        whole = extras.get("objective")
        if whole is None:
            return {}
        divided = self.divided(params, params)
        return {"objective": lambda own: whole(self.joined(params, {**divided, part: own}))}

    def divided(self, params: Any, x: Any) -> dict[str, dict[str, Any]]:
        """A tree like the parameters as a dictionary by path for each part."""
        found: dict[str, dict[str, Any]] = {part: {} for part in self.parts()}
        leaves = tree.below(tree.structure(params), x)
        for part, name, leaf in zip(self.assigned(params), parameter_paths(params), leaves, strict=True):
            found[part][name] = leaf
        return found

    def joined(self, params: Any, divided: Mapping[str, Mapping[str, Any]]) -> Any:
        """The tree like the parameters whose parts were divided."""
        places = zip(self.assigned(params), parameter_paths(params), strict=True)
        return tree.unflatten(tree.structure(params), [divided[part][name] for part, name in places])


class NoOthers(Fields):
    """The default of `groups` where every parameter is to match a pattern: the optimizer of no parameters."""

    def init(self, params: Any) -> Any:
        """No state; raises ParameterError for a parameter."""
        for path in params:
            raise ParameterError(
                f"groups: no pattern matches {path}, and there is no default",
                hint="the second argument is for the others: an optimizer, or None, which leaves them as they are",
            )

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """No parameters, and no state."""
        return params, self.init(params)


class Groups(Divided):
    """The optimizer that `optim.groups` makes: parameters whose path matches a pattern have an optimizer of their own.

    `groups` are pairs of a pattern and its optimizer or None; `default` is the optimizer of all other parameters.

    Shapes: as `groups`.
    Raises: as `groups` does.

    >>> import wholestep as ws
    >>> ws.optim.groups({"*.bias": None}, ws.optim.sgd(0.1)).groups
    (('*.bias', None),)
    """

    groups: tuple[tuple[str, Any], ...]
    default: Any

    def parts(self) -> dict[str, Any]:
        """The optimizer under each pattern, and the default."""
        return {**dict(self.groups), "default": self.default}

    def assigned(self, params: Any) -> list[str]:
        """The first pattern that matches the path of each parameter, or "default"."""
        paths = parameter_paths(params)
        check_patterns("groups", [pattern for pattern, _ in self.groups], paths)
        return [next((p for p, _ in self.groups if tree.matches(p, path)), "default") for path in paths]

    def __repr__(self) -> str:
        others = "" if isinstance(self.default, NoOthers) else f", {self.default!r}"
        return f"groups({dict(self.groups)!r}{others})"


def groups(patterns: Mapping[str, Any], default: Optimizer | None = NoOthers()) -> Groups:  # noqa: B008  it is frozen
    """Other optimizers for the parameters whose path matches a pattern; the first that matches counts.

    `*` matches any characters, and the path of a tree matches all its leaves: `layers[0]`, `*.bias`. A value of
    `patterns` is an optimizer; a dictionary of hyper-parameters that differ from the default's; or None for parameters
    that are never updated and have no state. Their gradients are still computed, since the guard tests them;
    `nn.frozen` saves that. `default`, an optimizer or None, is for the parameters that no pattern matches;
    without it there may be none.
    Hyper-parameters are spelled `groups['*.bias'].lr` and `default.lr` where a shorter name is ambiguous.

    Shapes: trees of floating or complex arrays; states are those of the optimizers.
    Raises: ParameterError for hyper-parameters that the default does not have, or whose numbers are wrong, and, in
    `init` and `update`, for a pattern that matches nothing, and without a default for a parameter that matches none;
    DtypeError for an invalid optimizer or pattern.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.groups({"head": {"lr": 1.0}, "body.b": None}, ws.optim.sgd(0.1))
    >>> params = {"head": np.zeros(1), "body": {"w": np.zeros(1), "b": np.zeros(1)}}
    >>> grads = {"head": np.ones(1), "body": {"w": np.ones(1), "b": np.ones(1)}}
    >>> optimizer.update(grads, optimizer.init(params), params)[0]
    {'head': array([-1.]), 'body': {'w': array([-0.1]), 'b': array([0.])}}
    """
    if not isinstance(patterns, Mapping):
        raise DtypeError(f"groups: {type_in_words(patterns)}, and no dictionary of patterns of paths and optimizers")
    members: list[tuple[str, Any]] = []
    for pattern, given in patterns.items():
        if not isinstance(pattern, str):
            raise DtypeError(f"groups: {pattern!r} is no pattern of paths")
        if pattern == "default":
            raise ParameterError("groups: default is the name of what matches no pattern", hint="write default*")
        if isinstance(given, Mapping) and isinstance(default, NoOthers):
            raise ParameterError(
                f"groups: {pattern} has other hyper-parameters than the default, and there is no default",
                hint=f"groups({{{pattern!r}: {dict(given)!r}}}, ws.optim.adam(1e-3))",
            )
        members.append((pattern, override_fields(default, given, "groups") if isinstance(given, Mapping) else given))
    for name, optimizer in [*members, ("default", default)]:
        check_optimizer(f"groups: {name}", optimizer, optional=True)
    return Groups(tuple(members), default)
