"""Which back end trains the main effects: the rows, or tables of co-occurrence whose updates do not touch the rows."""

import numpy as np

from skboost._engine.crosstab import CrossTab
from skboost._engine.epoch_state import EpochState
from skboost._engine.row_state import RowState
from skboost._engine.table_state import TableState

# An epoch of tables ends when its largest steps add up to this much raw score, or after so many steps per term.
TAU_LOG_LOSS = 0.2
TAU_LOG_LINK = 0.05
SWEEPS = 20


def row_back_end(problem, block, scores, train, held, saturated):
    """Return the back end that holds the rows of a bag.

    Parameters
    ----------
    problem : Problem
        Rows, cells and loss.
    block : TermBlock
        Terms of the stage.
    scores : ndarray of shape (n_outputs, n_rows)
        Raw scores at the start.
    train, held : ndarray of shape (n_rows,)
        Weights of the training and of the validation rows.
    saturated : ndarray of shape (n_rows,)
        Loss of perfect predictions.

    Returns
    -------
    RowState
    """
    axes = [(*features, -1)[:2] for features in block.features]
    mapper, rows = problem.mapper, problem.rows
    paired = {feature for features in block.features if len(features) > 1 for feature in features}
    coarse = [mapper.coarse(j) if j in paired else None for j in range(mapper.n_features)]
    n_cells = mapper.n_cells
    return RowState(
        problem.loss, rows.cells, axes, n_cells, rows.y, scores, train, held, coarse=coarse, saturated=saturated
    )


class Tables:
    """Maker of the back ends of the main effects; what bags share is made once.

    Parameters
    ----------
    problem : Problem
        Rows, cells, loss and rules.
    block : TermBlock
        Main effects.
    n_threads : int
        Bags that run at the same time.

    Attributes
    ----------
    kind : {"rows", "tables"}
        Which back end is used.
    """

    def __init__(self, problem, block, n_threads):
        self.problem, self.block = problem, block
        self.kind = problem.rules.trainer if problem.rules.trainer != "auto" else "rows"
        if not len(block):
            self.kind = "rows"
        if self.kind == "tables":
            features = [feature for (feature,) in block.features]
            rows, n_threads = problem.rows, min(n_threads, len(problem.bags))
            # One table that bags share, and up to two for each bag that runs.
            self.max_bytes = problem.rules.max_table_bytes // (1 + 2 * n_threads)
            cells = rows.cells if len(features) == len(rows.cells) else np.ascontiguousarray(rows.cells[features])
            self.table = CrossTab(
                cells,
                problem.mapper.n_cells[features],
                rows.weight,
                n_copies=rows.n_copies,
                max_bytes=self.max_bytes,
                n_threads=n_threads,
            )

    def back_end(self, scores, train, held, saturated):
        """Return the back end of a bag; the arguments are those of `row_back_end`."""
        loss, y = self.problem.loss, self.problem.rows.y
        if self.kind == "tables" and loss.constant_hessian:
            return TableState(self.table, y, scores, train, held, max_bytes=self.max_bytes)
        if self.kind == "tables":
            tau = TAU_LOG_LOSS if loss.name == "log_loss" else TAU_LOG_LINK
            return EpochState(self.table, loss, y, scores, train, held, tau=tau, sweeps=SWEEPS, saturated=saturated)
        return row_back_end(self.problem, self.block, scores, train, held, saturated)
