"""The rates of this machine, as they were last measured: kept on disk beside compiled code, a file for each machine."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict
from typing import Any, NamedTuple

from wholestep import config
from wholestep.backends.cpu.target import host
from wholestep.lower.cost import DEFAULT, Rates
from wholestep.runtime import cache, cores
from wholestep.runtime.folder import Entry, Folder, Unusable

BESIDE = "machine"
"""The folder in that of compiled code; nothing is ever removed from it to make room."""


class Known(NamedTuple):
    """Rates, and when they were measured, in seconds since 1970."""

    rates: Rates
    measured: float


_known: dict[tuple[str, str | None], Known | None] = {}


def current() -> Rates:
    """What programs are planned with: the rates that were measured on this machine, or else the defaults."""
    found = known()
    return DEFAULT if found is None else found.rates


def known() -> Known | None:
    """What was measured on this machine; None where nothing was, or where it cannot be believed."""
    name, where = key(), config.cache_place()
    if (name, where) not in _known:
        _known[name, where] = read(name)
    return _known[name, where]


def keep(rates: Rates) -> bool:
    """Plan with these from now on; whether later processes will too."""
    name, now, folder = key(), Known(rates, time.time()), place()
    if folder is not None:
        folder.put(name, Entry((), {"measured": now.measured, "rates": rates._asdict()}))
    _known[name, config.cache_place()] = now
    return folder is not None


def place() -> Folder | None:
    """The folder; None where nothing is kept on disk. Raises Unusable where the user has no home."""
    found = cache.place()
    return None if found is None else Folder(found.place / BESIDE)


def key() -> str:
    """What a measurement holds for: the processor with its features, and how many cores this process may use."""
    facts = {"target": asdict(host()), "cores": cores.available()[0], "abi": cache.abi()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read(name: str) -> Known | None:
    """What a file says, where there is one that fits."""
    try:
        folder = place()
        found = None if folder is None else folder.get(name)
    except Unusable:
        return None  # as every compilation says, which uses the folder around this one
    return None if found is None else decoded(found.facts)


def decoded(facts: dict[str, Any]) -> Known | None:
    """Rates from JSON; None where they are not those that are known today, or no rates at all."""
    given, measured = facts.get("rates"), facts.get("measured")
    if not isinstance(given, dict) or set(given) != set(Rates._fields) or type(measured) is not float:
        return None
    if not all(type(x) in (int, float) and 0 < x < math.inf for x in given.values()):
        return None
    return Known(Rates(**given), measured)
