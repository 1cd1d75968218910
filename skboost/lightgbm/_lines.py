"""The text of a model as numbered lines, and numbers read from them.

A model file is untrusted. Nothing here makes room by a number that the file claims: arrays are as long as the text that
holds them, and every refusal names a line.
"""

import re

import numpy as np

_INTEGERS = re.compile(r"[ ]*(?:-?[0-9]{1,10}(?:[ ]+|\Z))*")
_FLOAT_CHARACTERS = re.compile(r"[-+0-9.eEinfaINFA ]*")
LONGEST_NUMBER = 400
_SHOWN = 60


def fault(line, message):
    """Return the ValueError that names a line."""
    return ValueError(f"Line {line}: {message}")


def shown(text):
    """Return a text as messages quote it: in quotes, escaped and not too long."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


class Lines:
    """Lines of a text, read one after the other.

    Parameters
    ----------
    text : str
        Lines end in ``\\n`` or ``\\r\\n``.

    Attributes
    ----------
    number : int
        Number of the line that `peek` returns, from 1.
    """

    def __init__(self, text):
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()
        self.number = 1

    def __len__(self):
        return len(self._lines)

    def peek(self):
        """Return the next line without its end, None behind the last one."""
        if self.number > len(self._lines):
            return None
        return self._lines[self.number - 1].removesuffix("\r")

    def take(self):
        """Return the next line and go on."""
        line = self.peek()
        self.number += 1
        return line

    def n_bytes(self, first, end):
        """Return the lengths in bytes of the lines ``first <= number < end``, as they are and with ends of one byte."""
        lines = self._lines[first - 1 : end - 1]
        real = sum(len(line.encode()) + 1 for line in lines)
        return real, real - sum(line.endswith("\r") for line in lines)


class Fields:
    """Keys and values of the header or of one tree, with their lines.

    Parameters
    ----------
    where : str
        What messages call it.
    line : int
        Line that stands for what is missing.
    """

    def __init__(self, where, line):
        self.where = where
        self.line = line
        self._values = {}

    def add(self, key, value, line):
        """Store the value of a key, which must be new."""
        if key in self._values:
            raise fault(line, f"{ascii(key[:_SHOWN])[1:-1]} occurs twice in {self.where}.")
        self._values[key] = value, line

    def __contains__(self, key):
        return key in self._values

    def text(self, key):
        """Return the value of a key and its line.

        Raises
        ------
        ValueError
            If there is no such key.
        """
        if key not in self._values:
            raise fault(self.line, f"{self.where} has no {key}.")
        return self._values[key]

    def line_of(self, key):
        """Return the line of a key, that of the whole where it is absent."""
        return self._values.get(key, (None, self.line))[1]

    def integers(self, key, length, low=-(2**31), high=2**31 - 1):
        """Return an int64 array of a given length whose entries lie in [low, high]."""
        value, line = self.text(key)
        if not _INTEGERS.fullmatch(value):
            raise fault(line, f"{key} holds something else than whole numbers: {shown(value)}.")
        tokens = _split(key, value, length, line)
        numbers = np.array([int(token) for token in tokens], dtype=np.int64)
        if numbers.size and not (low <= numbers.min() and numbers.max() <= high):
            raise fault(line, f"{key} has entries outside of {low} to {high}.")
        return numbers

    def integer(self, key, low, high=2**31 - 1):
        """Return one whole number in [low, high]."""
        return int(self.integers(key, 1, low, high)[0])

    def floats(self, key, length, finite=True):
        """Return a float64 array of a given length, without NaN, and without infinities when `finite`."""
        value, line = self.text(key)
        numbers = self._parsed(key, value, length, line)
        if not (np.isfinite(numbers) if finite else ~np.isnan(numbers)).all():
            raise fault(line, f"{key} has entries that are {'not finite' if finite else 'no numbers'}.")
        return numbers

    def lenient_floats(self, key, length):
        """Return an array that only informs: zeros where the key is absent, 0 for entries that are not finite."""
        if key not in self or not self.text(key)[0].strip(" "):
            return np.zeros(length)
        value, line = self.text(key)
        numbers = self._parsed(key, value, length, line)
        return np.where(np.isfinite(numbers), numbers, 0.0)

    def _parsed(self, key, value, length, line):
        tokens = _split(key, value, length, line) if _FLOAT_CHARACTERS.fullmatch(value) else [""]
        try:
            if max(map(len, tokens), default=0) > LONGEST_NUMBER:
                raise ValueError
            return np.array([float(token) for token in tokens], dtype=np.float64)
        except ValueError:
            raise fault(line, f"{key} holds something else than numbers: {shown(value)}.") from None


def _split(key, value, length, line):
    """Return the entries of a value, which must be so many."""
    tokens = value.split()
    if len(tokens) != length:
        raise fault(line, f"{key} has {len(tokens)} entries instead of {length}.")
    return tokens
