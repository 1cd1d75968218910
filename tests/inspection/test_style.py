"""Texts of pictures: short, distinct, and true to their numbers."""

import pytest

from skboost.inspection import _style


@pytest.mark.parametrize(
    ("words", "length", "short"),
    [
        (["red", "green"], 10, ["red", "green"]),
        (["district of Cologne", "district of Kassel"], 12, ["…Cologne", "…Kassel"]),
        (["northern region", "southern region"], 10, ["northern…", "southern…"]),
        (["a very long word indeed"], 10, ["a ver…deed"]),
        (["same same same same"] * 2, 10, ["same…same"] * 2),
        (["a b c d e f g h", "a h"], 10, ["a b c…g h", "a h"]),
        ([], 10, []),
        (["", ""], 10, ["", ""]),
    ],
)
def test_words_are_shortened_by_what_they_share(words, length, short):
    assert _style.shorten_all(words, length) == short


@pytest.mark.parametrize("length", [8, 9, 15, 39])
def test_no_word_is_longer_than_asked(length):
    words = [f"the region of {name} in the east of the country" for name in ("A", "B", "C" * 50)]
    short = _style.shorten_all(words, length)
    assert max(map(len, short)) <= length
    assert len(set(short)) == 3


@pytest.mark.parametrize("length", [12, 13, 30, 59])
@pytest.mark.parametrize("names", [("a", "b"), ("a" * 50, "b"), ("a", "b" * 50), ("a" * 50, "b" * 50)])
def test_pairs_share_the_room(names, length):
    text = _style.shorten_pair(names, length)
    assert len(text) <= length
    assert " & " in text
    if sum(map(len, names)) + 3 <= length:
        assert text == " & ".join(names)


def test_texts_are_no_formulas_and_have_one_line():
    assert _style.shorten("costs $5\nor $6") == r"costs \$5 or \$6"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.000123, "-0.000123"), (123456.7, "123457"), (1e20, "1e+20"), (0.12345, "0.1235"), (1e-9, "1e-09")],
)
def test_numbers_are_short(value, text):
    assert _style.number(value) == text


def test_a_range_without_width_gets_one():
    low, high = _style.padded(3.0, 3.0)
    assert low < 3.0 < high
    low, high = _style.padded(0.0, 0.0)
    assert low < 0.0 < high
