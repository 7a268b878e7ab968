"""Measured rates of this machine, stored on disk beside compiled code."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict
from typing import Any, NamedTuple

from wholestep import config
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates
from wholestep.runtime.cache import code_cache
from wholestep.runtime.cache.private_folder import CacheEntry, FolderUnusable, PrivateFolder
from wholestep.runtime.cpu import core_count

FOLDER_NAME = "machine"
"""The folder in that of compiled code; nothing is ever removed from it to make room."""


class MeasuredRates(NamedTuple):
    """Rates, and when they were measured, in seconds since 1970."""

    rates: Rates
    measured: float


_rates: dict[tuple[str, str | None], MeasuredRates | None] = {}


def current_rates() -> Rates:
    """Return the rates that programs are planned with: those measured on this machine, or else the defaults."""
    found = measured_rates()
    return DEFAULT_RATES if found is None else found.rates


def measured_rates() -> MeasuredRates | None:
    """Return the rates measured on this machine; None where there are none that can be trusted."""
    name, where = machine_key(), config.cache_place()
    if (name, where) not in _rates:
        _rates[name, where] = read_rates(name)
    return _rates[name, where]


def store_rates(rates: Rates) -> bool:
    """Plan with these rates from now on; True where later processes will too."""
    name, now, folder = machine_key(), MeasuredRates(rates, time.time()), rates_folder()
    if folder is not None:
        folder.put(name, CacheEntry((), {"measured": now.measured, "rates": rates._asdict()}))
    _rates[name, config.cache_place()] = now
    return folder is not None


def rates_folder() -> PrivateFolder | None:
    """The folder; None where nothing is kept on disk. Raises Unusable where the user has no home."""
    return code_cache.cache_folder(FOLDER_NAME)


def machine_key() -> str:
    """Return a hash of the processor with its features and the number of usable cores."""
    facts = {"target": asdict(host_target()), "cores": core_count.available_cores()[0], "abi": code_cache.process_abi()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_rates(name: str) -> MeasuredRates | None:
    """Read stored rates; None where there are none that fit."""
    try:
        folder = rates_folder()
        found = None if folder is None else folder.get(name)
    except FolderUnusable:
        return None  # as every compilation says, which uses the folder around this one
    return None if found is None else decode_rates(found.facts)


def decode_rates(facts: dict[str, Any]) -> MeasuredRates | None:
    """Rates from JSON; None where they are not those that are known today, or no rates at all."""
    given, measured = facts.get("rates"), facts.get("measured")
    if not isinstance(given, dict) or set(given) != set(Rates._fields) or type(measured) is not float:
        return None
    if not all(type(x) in (int, float) and 0 < x < math.inf for x in given.values()):
        return None
    return MeasuredRates(Rates(**given), measured)
