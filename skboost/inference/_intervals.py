"""Intervals and tests from the covariance of the shapes."""

import numbers

import numpy as np
from scipy.stats import chi2, norm

N_SIMULATED = 20_000
SHAPE_KINDS = ("pointwise", "simultaneous")
PREDICTION_KINDS = ("confidence", "prediction", "reproduction")


def check_alpha(alpha):
    """Return the allowed share of misses as a float, or raise ValueError."""
    if isinstance(alpha, (bool, np.bool_)) or not isinstance(alpha, numbers.Real) or not 0 < alpha < 1:
        raise ValueError(f"alpha must be a float in the range (0, 1), got {alpha!r}.")
    return float(alpha)


def normal_quantile(alpha):
    """Return the two-sided quantile of the standard normal distribution."""
    return float(norm.isf(alpha / 2))


def simultaneous_quantile(cov, alpha, seed, n_simulated=N_SIMULATED):
    """Return the quantile of the largest standardised deviation of all cells of a term.

    Parameters
    ----------
    cov : ndarray of shape (n_cells, n_cells)
        Covariance of the cells, up to a factor.
    alpha : float
        Allowed share of curves that leave the band somewhere.
    seed : int
        Seed of the simulation.
    n_simulated : int, default=20000
        Number of simulated curves.

    Returns
    -------
    float
        At least the pointwise quantile; that one if no cell varies.
    """
    deviation = np.sqrt(np.maximum(cov.diagonal(), 0.0))
    used = deviation > 0
    if not used.any():
        return normal_quantile(alpha)
    values, vectors = np.linalg.eigh(cov[np.ix_(used, used)])
    root = vectors * np.sqrt(np.maximum(values, 0.0)) / deviation[used][:, None]
    normal = np.random.default_rng(seed).standard_normal((len(values), n_simulated))
    largest = np.abs(root @ normal).max(axis=0)
    return max(float(np.quantile(largest, 1 - alpha, method="higher")), normal_quantile(alpha))


def row_variances(cov, starts, codes, n_rows):
    """Return the variance of predictions per unit of noise variance, the intercept included.

    Parameters
    ----------
    cov : ndarray of shape (n_cells, n_cells)
        Covariance of the shapes per unit of noise variance.
    starts : ndarray of shape (n_terms + 1,)
        First cell of each term.
    codes : sequence of n_terms ndarray of shape (n_samples,)
        Cells of the rows to predict, counted within the term.
    n_rows : int
        Number of training rows.

    Returns
    -------
    ndarray of shape (n_samples,)
        Variances.
    """
    places = [first + np.asarray(code, dtype=np.intp) for first, code in zip(starts[:-1], codes, strict=True)]
    total = 0.0
    for t, place in enumerate(places):
        total = total + cov[place, place]
        for other in places[:t]:
            total = total + 2 * cov[place, other]
    return np.maximum(total, 0.0) + 1.0 / n_rows


def mean_square_test(shape, cov, counts):
    """Test whether a term is zero, by its mean square over the training rows.

    Under the null the mean square is a weighted sum of chi-square variables, approximated by one with the same mean and
    variance.

    Parameters
    ----------
    shape : ndarray of shape (n_cells,)
        Scores of the term.
    cov : ndarray of shape (n_cells, n_cells)
        Covariance of the scores.
    counts : ndarray of shape (n_cells,)
        Rows in each cell.

    Returns
    -------
    statistic : float
        Mean square over the scale of the chi-square variable; 0 for a term that is zero.
    dof : float
        Degrees of freedom, 0 for a term that does not vary.
    pvalue : float
        Probability of a larger statistic; 1 for a term that is zero.
    """
    share = counts / counts.sum()
    mean_square = float((share * shape * shape).sum())
    root = np.sqrt(share)
    scaled = root[:, None] * cov * root
    first, second = float(np.trace(scaled)), float(np.einsum("ij,ij->", scaled, scaled))
    if first <= 0 or second <= 0:
        return (0.0, 0.0, 1.0) if mean_square == 0 else (np.inf, 0.0, 0.0)
    statistic, dof = mean_square * first / second, first * first / second
    return statistic, dof, float(chi2.sf(statistic, dof))


def conformal_factor(ratios, alpha):
    """Return the split-conformal factor on half widths, infinite where there are too few held-out rows.

    Parameters
    ----------
    ratios : ndarray of shape (n_rows,)
        Absolute residuals of held-out rows over their half widths.
    alpha : float
        Allowed share of misses.

    Returns
    -------
    float
        The ratio of rank ``ceil((n + 1) (1 - alpha))``.
    """
    n = len(ratios)
    rank = int(np.ceil((n + 1) * (1 - alpha) - 1e-9))
    return float(np.partition(ratios, rank - 1)[rank - 1]) if rank <= n else np.inf
