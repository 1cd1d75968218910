"""Stored predictions do not move unless they are rewritten on purpose (tests/golden.py)."""

import json

import golden
import numpy as np
import pytest

STORED = json.loads(golden.FILE.read_text())


@pytest.fixture(scope="module")
def found():
    return golden.predictions()


def test_the_same_cases_are_stored(found):
    assert list(found) == list(STORED)


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("what", ["prediction", "knowledge"])
def test_predictions_have_not_moved(found, name, what):
    # Identical on one platform; the links of NumPy and SciPy differ in the last bits between platforms.
    np.testing.assert_allclose(found[name][what], STORED[name][what], rtol=1e-9, atol=1e-15)
