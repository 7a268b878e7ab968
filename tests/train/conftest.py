"""The devices that are there, and the models that every law is tried on."""

import pytest
from tests.train.models import MODELS

from wholestep.compiler.backends import BACKENDS
from wholestep.compiler.devices import REFERENCE


@pytest.fixture(params=sorted((*BACKENDS, REFERENCE)))
def device(request):
    return request.param


@pytest.fixture(params=MODELS, ids=[m.__name__ for m in MODELS])
def model(request):
    return request.param()
