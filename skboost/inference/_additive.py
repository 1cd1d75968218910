"""A Boulevard additive model of one or two stages: fitted shapes with everything that inference needs of them."""

from dataclasses import dataclass, replace

import numpy as np

from skboost._engine import boulevard_rows
from skboost.inference import _algebra, _stage

# Share of the largest variance of a cell below which a cell does not vary.
LEAST_VARIANCE = 1e-6
# Variance of a term's cells, per unit of noise, learning rate and 1/n, that rounding alone explains.
ROUNDING_VARIANCE = 1e-24


@dataclass(frozen=True)
class StageFit:
    """What a stage leaves: structures, label weights, and boosted scores for comparison.

    Attributes
    ----------
    cells : StageCells
    leaves : ndarray of shape (n_rounds, n_cells)
        int16 structures.
    weights : ndarray of shape (n_cells, n_cells)
        Label weights.
    limit, boosted : ndarray of shape (n_cells,)
        Scores in the limit of many rounds, and after the rounds that were run.
    shapes : ndarray of shape (n_cells,)
        Those of the two that the model has.
    """

    cells: _stage.StageCells
    leaves: np.ndarray
    weights: np.ndarray
    limit: np.ndarray
    boosted: np.ndarray
    shapes: np.ndarray


@dataclass(frozen=True)
class AdditiveFit:
    """Shapes of a model and their law.

    Attributes
    ----------
    starts : ndarray of shape (n_terms + 1,)
        First cell of each term.
    counts : ndarray of shape (n_cells,)
        Rows in every cell.
    n_rows : int
        Number of rows, all copies counted.
    shapes : ndarray of shape (n_cells,)
        Scores of the cells.
    cov : ndarray of shape (n_cells, n_cells)
        Their covariance per unit of noise variance.
    df1, df2 : float
        Traces of P and P P', P being the matrix from labels to fitted values.
    noise, adjusted : float
        Noise variance of labels, and the one that shapes see.
    gap : float
        Mean distance between the boosted scores and their limit, in standard errors.
    leaves : tuple of ndarray
        Structures of each stage.
    terms : tuple of int
        Terms of the fit that the model still has.
    rules : StageRules
        Parameters that the structures and their law are of.
    intercept : float, default=0.0
        Mean of the labels.
    purified : bool, default=True
        Whether pairs have been purified.
    """

    starts: np.ndarray
    counts: np.ndarray
    n_rows: int
    shapes: np.ndarray
    cov: np.ndarray
    df1: float
    df2: float
    noise: float
    adjusted: float
    gap: float
    leaves: tuple
    terms: tuple
    rules: _stage.StageRules
    intercept: float = 0.0
    purified: bool = True

    @property
    def n_terms(self):
        """Number of terms of the fit."""
        return len(self.starts) - 1

    @property
    def complete(self):
        """Whether the model has all terms of the fit."""
        return self.terms == tuple(range(self.n_terms))

    def take(self, positions):
        """Return the fit of a model that keeps only some of its terms."""
        return replace(self, terms=tuple(self.terms[position] for position in positions))

    def block(self, position):
        """Return the cells of a term of the model."""
        term = self.terms[position]
        return slice(self.starts[term], self.starts[term + 1])


def fit_stage(cells, rows, rules, seed, number, n_threads, leaves=None):
    """Fit the terms of a stage.

    Parameters
    ----------
    cells : StageCells
        Terms.
    rows : StageRows
        Rows; their targets are what is left to explain.
    rules : StageRules
        Parameters.
    seed : int
        Key of all draws.
    number : int
        Number of the stage.
    n_threads : int
        Number of threads; no influence on the result.
    leaves : ndarray of shape (n_rounds, n_cells), default=None
        Structures to replay.

    Returns
    -------
    StageFit
    """
    own_cuts = leaves is None
    table = boulevard_rows.contingency(cells.codes, cells.starts, rows.copies, n_threads)
    counts = table.diagonal().copy()
    leaves, boosted = _stage.boost(cells, rows, table, rules, seed, number, n_threads, leaves)
    blocks = _algebra.kernel_blocks(leaves, cells.starts, counts, rules.kappa)
    gram = _algebra.centred_table(table, rows.n_rows)
    weights = _algebra.stage_weights(blocks, cells.starts, gram, counts, rules.learning_rate, rules.update)
    limit = weights @ _stage.cell_sums(cells, rows, rows.target)
    # The limit has no Monte Carlo noise. It averages every tree over all rows, also those that chose its cuts, which is
    # what honest trees avoid.
    shapes = boosted if own_cuts and rules.structure != "random" else limit
    return StageFit(cells, leaves, weights, limit, boosted, shapes)


def residual_rows(rows, stage):
    """Return the rows with what a stage leaves unexplained as targets."""
    cells = stage.cells
    return replace(rows, target=boulevard_rows.residuals(cells.codes, cells.starts, rows.target, stage.shapes, 1))


def combine(stages, rows, rules, transform, n_threads):
    """Return the model of one or two stages.

    Parameters
    ----------
    stages : list of StageFit
        Each one fitted to the residuals of the one before.
    rows : StageRows
        Rows with the targets of the first stage.
    rules : StageRules
        Parameters.
    transform : callable
        Takes label weights of the cells, (n_cells, n_columns), and returns them moved between the terms by a linear map
        that leaves fitted values alone.
    n_threads : int
        Number of threads; no influence on the result.

    Returns
    -------
    AdditiveFit
    """
    codes = np.concatenate([stage.cells.codes for stage in stages])
    cells = _stage.StageCells(
        codes,
        np.concatenate([stage.cells.shapes for stage in stages]),
        np.concatenate([stage.cells.ordered for stage in stages]),
    )
    table = boulevard_rows.contingency(codes, cells.starts, rows.copies, n_threads)
    counts, gram = table.diagonal().copy(), _algebra.centred_table(table, rows.n_rows)
    del table
    weights = stages[0].weights
    if len(stages) > 1:
        weights = _algebra.stack_stages(weights, stages[1].weights, gram)
    shapes = np.concatenate([stage.shapes for stage in stages])
    gaps = np.concatenate([stage.boosted - stage.limit for stage in stages])
    # Fitted values stay, and with them the degrees of freedom and the noise.
    moved = transform(np.column_stack([weights, shapes, gaps]))
    weights, shapes, gaps = np.ascontiguousarray(moved[:, :-2]), moved[:, -2].copy(), moved[:, -1]
    del moved
    cov = _algebra.covariance(weights, gram)
    limit = ROUNDING_VARIANCE * min(max(1.0, rules.learning_rate), 1e6) ** 2
    for part in cells.blocks:
        if rows.n_rows * cov[part, part].max(initial=0.0) <= limit:
            # All rows share a leaf in every tree, and what is left of the centred scores is rounding.
            shapes[part] = gaps[part] = cov[part] = cov[:, part] = 0.0
    df1, df2 = _algebra.degrees_of_freedom(weights, gram, cov)
    noise, adjusted = _noise(cells, rows, rules, shapes, df1, df2)
    return AdditiveFit(
        starts=cells.starts,
        counts=counts,
        n_rows=rows.n_rows,
        shapes=shapes,
        cov=cov,
        df1=df1,
        df2=df2,
        noise=noise,
        adjusted=adjusted,
        gap=_gap(gaps, adjusted * cov.diagonal(), counts),
        leaves=tuple(stage.leaves for stage in stages),
        terms=tuple(range(len(cells.starts) - 1)),
        rules=rules,
    )


def _noise(cells, rows, rules, shapes, df1, df2):
    """Noise variance of the labels and of the shapes."""
    left = boulevard_rows.residuals(cells.codes, cells.starts, rows.target, shapes, 1)
    n, fitted = rows.n_rows, rows.target - left
    noise = _algebra.noise_variance(float((rows.copies * left * left).sum()), n, df1, df2)
    variance = float((rows.copies * fitted * fitted).sum()) / n
    return noise, _algebra.adjusted_noise_variance(noise, variance, n, df2, rules.learning_rate, rules.update)


def _gap(difference, variance, counts):
    """Mean distance in standard errors over the cells that vary, 0 where none does."""
    # Cells of next to no variance, as of pairs that the main effects explain, would decide alone.
    used = (counts > 0) & (variance > LEAST_VARIANCE * variance.max(initial=0.0))
    return float(np.mean(np.abs(difference[used]) / np.sqrt(variance[used]))) if used.any() else 0.0
