"""From random_state to the 64-bit seed of the counter-based generator, and the names of its streams.

Every random number of a fit is a function of (seed, stream, iteration, output, content of the row or number of the
leaf). Streams keep the uses apart: the draws of one never meet those of another.
"""

import numbers

import numpy as np
from sklearn.utils import check_random_state

STREAM_STRUCT = 1
STREAM_LEAF = 2
STREAM_MASK = 3
STREAM_SUBSAMPLE = 4
STREAM_HOLDOUT = 5
STREAM_VALIDATION = 6
STREAM_COLUMNS = 7
STREAM_EBM_ORDER = 8
STREAM_EBM_CUTS = 9
STREAM_EBM_BAGS = 10
STREAM_EBM_TIES = 11
STREAM_PRIOR = 12
STREAM_COINS = 13
STREAM_CALIBRATION = 20
STREAM_RANKING = 21
STREAM_BOULEVARD_DROPOUT = 24
STREAM_BOULEVARD_HALVES = 25
STREAM_BOULEVARD_WALK = 26
STREAM_BOULEVARD_ROWS = 30
STREAM_BOULEVARD_CUTS = 31


def resolve_seed(random_state):
    """Return the 64-bit seed that stands for a random_state.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        An int always gives the same seed. A RandomState instance is advanced by one draw; None advances the global one
        of NumPy.

    Returns
    -------
    int
        Seed, at least 0 and below 2**64.

    Raises
    ------
    ValueError
        If random_state is none of these (the error is scikit-learn's).
    """
    if isinstance(random_state, numbers.Integral) and random_state >= 0:
        # SeedSequence is stable across NumPy versions and spreads neighbouring seeds over all bits.
        return int(np.random.SeedSequence(int(random_state)).generate_state(1, np.uint64)[0])
    generator = check_random_state(random_state)
    low, high = generator.randint(0, 2**32, size=2, dtype=np.uint64)
    return int(low) | int(high) << 32
