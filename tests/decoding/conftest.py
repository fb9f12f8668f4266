"""Fixtures of the tests of decoding."""

import jaxtyping
import pytest


@pytest.fixture(scope="module")
def without_shape_checks():
    """Shapes are checked in all other tests; in those of thousands of images they take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
