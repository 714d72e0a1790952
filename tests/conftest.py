import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("deterministic")


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
