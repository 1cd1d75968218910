"""What stored objects have in common: a format version, and arrays that are looked at before a kernel sees them.

The kernels trust the arrays of a forest and of a bin mapper. A file may be damaged or made by hand, so both are checked
again whenever they are read.
"""

import numpy as np


def check_format(state, version, what):
    """Raise ValueError, with what to do, unless a state is a dict of the format version that this code reads."""
    found = state.get("format") if isinstance(state, dict) else None
    if found != version:
        raise ValueError(
            f"This {what} has the format {found!r}, this skboost reads format {version}: load it with the version of "
            "skboost that saved it, or fit the model again."
        )


def stored_array(what, name, array, dtype):
    """Return a read-only view of an array as kernels read it.

    Neither contents nor a memory map are copied, unless the array is of the other byte order, strided or misaligned.

    Raises
    ------
    ValueError
        If it is no array, one of another type or one without dimensions.
    """
    if not isinstance(array, np.ndarray) or not array.ndim or array.dtype.newbyteorder("=") != dtype:
        raise ValueError(f"Malformed {what}: {name} is no array of the type {np.dtype(dtype)}.")
    view = np.require(array, dtype, ["C", "A"]).view()
    view.flags.writeable = False
    return view
