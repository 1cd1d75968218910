"""What the pictures share: Matplotlib on demand, colours, labels, and axes divided into panels.

Nothing here touches ``rcParams``: every artist is given its own style, so that drawing a picture changes no other.
"""

import numpy as np

BLUE = "#1f5f99"
ORANGE = "#c8612c"
GREY = "#6b7280"
LIGHT = "#c9ced6"
FAINT = "#eceef1"
INK = "#1f2933"
# Distinct for readers with any colour vision (Okabe and Ito); more classes than these take colours from a map.
CLASS_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195"]
LONGEST = 22
# Inches of a letter and of a line of the tick labels.
LETTER = 0.075
LINE = 0.13


def matplotlib_pyplot(caller):
    """Return ``matplotlib.pyplot``, or raise an ImportError that says who needs it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f"{caller} needs Matplotlib; install it with pip install matplotlib.") from error
    return pyplot


def figure_and_axes(ax, size, caller):
    """Return the figure and the axes to draw into; without ``ax`` a new figure of ``size`` inches."""
    pyplot = matplotlib_pyplot(caller)
    if ax is None:
        return pyplot.subplots(figsize=size, layout="constrained")
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a Matplotlib Axes or None, got {type(ax).__name__}.")
    return ax.figure, ax


def tidy(ax, *, grid="y"):
    """Take the box off the axes, thin what remains, and put a faint grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=LIGHT, linewidth=0.8)
    ax.tick_params(colors=INK, width=0.8, length=3, labelsize=8.5)
    ax.tick_params(color=LIGHT)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=FAINT, linewidth=0.8)


def title(ax, text):
    """Write a title at the left end of the axes."""
    ax.set_title(text, loc="left", fontsize=10.5, color=INK, fontweight="bold")


def label(set_label, text):
    """Name an axis."""
    set_label(text, fontsize=9, color=INK)


def name_x(ax, text):
    """Name the horizontal axis, a line lower if an offset of its numbers, such as 1e-6, needs the line."""
    formatter = ax.xaxis.get_major_formatter()
    formatter.set_locs(ax.xaxis.get_majorticklocs())
    label(ax.set_xlabel, text)
    if formatter.get_offset():
        ax.xaxis.labelpad = 12


def title_room(ax):
    """Return how many characters of a title fit above the axes."""
    return max(12, int(inches(ax)[0] / 0.1))


def covers(coverage):
    """Return a remark on the part of the weight that an axis covers."""
    return "" if coverage == 1.0 else f"   ({100 * coverage:.3g} % of the weight)"


def class_colours(n):
    """Return ``n`` colours for the lines of a picture."""
    if n == 1:
        return [BLUE]
    if n <= len(CLASS_COLOURS):
        return CLASS_COLOURS[:n]
    from matplotlib import colormaps

    return list(colormaps["turbo"](np.linspace(0.05, 0.95, n)))


def shorten(text, length=LONGEST):
    """Return the text with its middle left out if it is longer than ``length``.

    Examples
    --------
    >>> from skboost.inspection._style import shorten
    >>> shorten("a very long name of a feature", 12)
    'a very…ature'
    """
    # A dollar sign starts a formula in Matplotlib, a line break a second line.
    text = " ".join(str(text).split())
    if len(text) > length:
        tail = (length - 1) // 2
        text = text[: length - 1 - tail].rstrip() + "…" + text[-tail:].lstrip()
    return text.replace("$", r"\$")


def shorten_pair(names, length):
    """Return ``a & b`` with both names shortened alike, the room that one leaves given to the other."""
    room = length - 3
    first, second = (len(str(name)) for name in names)
    half = room // 2
    widths = (room - min(second, half), half) if first > half else (first, room - first)
    return " & ".join(shorten(name, max(width, 3)) for name, width in zip(names, widths, strict=True))


def number(value, digits=4):
    """Return a number with a few significant digits and no needless zeros.

    Examples
    --------
    >>> from skboost.inspection._style import number
    >>> number(1234567.8), number(0.1234567), number(31.0), number(float("nan"))
    ('1234568', '0.1235', '31', 'missing')
    """
    value = float(value)
    if np.isnan(value):
        return "missing"
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.{digits}g}"


def share(part, whole):
    """Return a share as a percentage that never rounds something to nothing.

    Examples
    --------
    >>> from skboost.inspection._style import share
    >>> share(1, 4), share(1, 10000), share(0, 4)
    ('25 %', '<0.1 %', '0 %')
    """
    percent = 100.0 * part / whole if whole > 0 else 0.0
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def inches(ax):
    """Return width and height of the axes in inches, as they stand before any layout."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def shorten_all(words, length=LONGEST):
    """Shorten words, what all begin or end with first, so that words that differ are likely to differ still.

    Examples
    --------
    >>> from skboost.inspection._style import shorten_all
    >>> shorten_all(["district of Cologne", "district of Kassel"], 12)
    ['…Cologne', '…Kassel']
    >>> shorten_all(["unskilled manual", "clerk"], 12)
    ['unskil…anual', 'clerk']
    """
    words = [" ".join(str(word).split()) for word in words]
    before, after = _common(words), _common([word[::-1] for word in words])
    inner = [word[before : len(word) - after] for word in words]
    if max(map(len, words), default=0) <= length or not (before or after) or "" in inner:
        return [shorten(word, length) for word in words]
    # One sign that something is left out is enough.
    start, end = ("…", "") if before else ("", "…")
    return [shorten(start + word + end, length) for word in inner]


def _common(words):
    """Return the length of the part up to a space that all words begin with."""
    n = 0
    while words and all(len(word) > n for word in words) and len({word[n] for word in words}) == 1:
        n += 1
    return words[0].rfind(" ", 0, n) + 1 if n else 0


def name_columns(ax, places, words, room, *, after=()):
    """Name columns below the axes, upright and shortened where they would not fit side by side.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes with the columns.
    places : ndarray of shape (n_columns,)
        Places of the columns.
    words : sequence of str
        Names of the first columns, shortened where they must be.
    room : tuple of float
        Width and height in inches of the place for the columns and their names.
    after : sequence of str, default=()
        Names of the remaining columns, short ones.
    """
    upright = max(map(len, [*words, *after]), default=0) * LETTER > 0.95 * room[0] / max(len(places), 1)
    length = max(7, int(room[1] * 0.42 / LETTER)) if upright else LONGEST
    words = [*shorten_all(words, min(length, LONGEST)), *after]
    ax.set_xticks(places, words, rotation=90 if upright else 0)


def every(n, inches):
    """Return a step so that every so many of ``n`` names fit one below the other into a length in inches."""
    return max(1, -(-n // max(int(inches / LINE), 1)))


def divide(ax, heights, widths, home, *, gap=0.06):
    """Divide the place of the axes into a grid and move the axes to one cell of it.

    Works under every layout engine, because the new axes belong to the same grid as the old, and for axes that were
    placed by hand, which belong to no grid.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes to move.
    heights, widths : sequence of float
        Relative sizes of the rows, from above, and of the columns.
    home : tuple of int
        Row and column in which ``ax`` stays.
    gap : float, default=0.06
        Space between cells relative to their mean size.

    Returns
    -------
    callable
        ``add(row, column, **kwargs)`` creates axes in another cell.
    """
    figure, spec = ax.figure, ax.get_subplotspec()
    if spec is not None:
        inner = spec.subgridspec(
            len(heights), len(widths), height_ratios=heights, width_ratios=widths, hspace=gap, wspace=gap
        )
        ax.set_subplotspec(inner[home])
        return lambda row, column, **kwargs: figure.add_subplot(inner[row, column], **kwargs)
    box = ax.get_position()
    left, width = _segments(widths, gap)
    top, height = _segments(heights, gap)

    def place(row, column):
        bottom = box.y1 - (top[row] + height[row]) * box.height
        return [box.x0 + left[column] * box.width, bottom, width[column] * box.width, height[row] * box.height]

    ax.set_position(place(*home))
    return lambda row, column, **kwargs: figure.add_axes(place(row, column), **kwargs)


def _segments(sizes, gap):
    """Return starts and lengths, as parts of 1, of segments with gaps of ``gap`` mean segments between them."""
    sizes = np.asarray(sizes, dtype=np.float64)
    space = gap * sizes.mean()
    total = sizes.sum() + space * (len(sizes) - 1)
    starts = (np.cumsum(sizes) - sizes + space * np.arange(len(sizes))) / total
    return starts, sizes / total


def padded(low, high, part=0.06):
    """Return limits a little wider than the range; a range without width becomes one around its place."""
    low, high = float(low), float(high)
    width = high - low
    if width <= 1e-12 * max(abs(low), abs(high)):
        # A shape of zeros should look flat, not like noise of rounding.
        width = max(abs(low), 1.0)
        return low - 0.5 * width, high + 0.5 * width
    return low - part * width, high + part * width
