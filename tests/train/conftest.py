"""The devices that are there, and the models that every law is tried on."""

import os

import pytest
from tests.train.models import MODELS

from wholestep.compiler.backends import DEFAULT_DEVICE
from wholestep.compiler.devices import REFERENCE

# Kernels of a card are compiled too slowly for every law to run there each time: `make cards` runs them.
DEVICES = os.environ.get("WHOLESTEP_TEST_DEVICES", f"{DEFAULT_DEVICE} {REFERENCE}").split()


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=MODELS, ids=[m.__name__ for m in MODELS])
def model(request):
    return request.param()
