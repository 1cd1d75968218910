"""Which back end trains the main effects: the rows, or tables of co-occurrence whose updates do not touch the rows.

An update on the rows costs time in proportion to the rows; on tables in proportion to the cells of all terms, besides
a little for the validation rows or for the passes over the rows between epochs. Tables have to be built first.
"""

import numpy as np

from skboost._engine.crosstab import CrossTab, costs
from skboost._engine.epoch_state import EpochState
from skboost._engine.row_state import RowState
from skboost._engine.table_state import TableState

# Nanoseconds of an update on one core: per row, on tables per cell and per row. First for squared error, then for
# losses whose second derivatives change, there per output.
ROW_TIME = 0.65, 4.0
CELL_TIME = 0.55, 0.55
TABLE_ROW_TIME = 0.08, 0.8
STEPS_PER_TERM = 700, 350
# Tables are built in this multiple of the time that `costs` estimates from memory traffic alone.
BUILD_FACTOR = 3.0
# Bytes of an entry of a table, on average.
ENTRY_BYTES = 1.4

# An epoch of tables ends when its largest steps add up to this much raw score, or after so many steps per term.
TAU_LOG_LOSS = 0.4
TAU_LOG_LINK = 0.05
SWEEPS = 40


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


def tables_pay(n_rows, block, n_bags, loss, max_rounds, max_bytes):
    """Return whether training on tables is expected to be faster than on the rows.

    Parameters
    ----------
    n_rows : int
        Number of distinct rows.
    block : TermBlock
        Main effects.
    n_bags : int
        Number of bags, which share what is built once.
    loss : Loss
        What is boosted.
    max_rounds : int
        Most updates per term.
    max_bytes : int
        Most bytes of one table.

    Returns
    -------
    bool
        False also where a table would need more memory.
    """
    kind, n_features, n_cells = int(not loss.constant_hessian), len(block), block.n_cells
    n_steps = max(1, min(STEPS_PER_TERM[kind], max_rounds)) * n_features
    row_bytes = ENTRY_BYTES * n_cells
    table = costs(n_rows, n_features, n_cells, row_bytes, n_steps)
    if row_bytes * min(n_cells, n_rows * n_features / table.spacing) > max_bytes:
        return False
    # Under squared error every bag has tables of its own besides the shared one.
    n_builds = 1 / n_bags + loss.constant_hessian
    step = loss.n_outputs * (CELL_TIME[kind] * n_cells + TABLE_ROW_TIME[kind] * n_rows)
    on_tables = n_builds * BUILD_FACTOR * table.build + n_steps * step
    return on_tables < n_steps * loss.n_outputs * ROW_TIME[kind] * n_rows


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
        rules, rows, n_bags = problem.rules, problem.rows, len(problem.bags)
        n_threads = min(n_threads, n_bags)
        # One table that bags share, and up to two for each bag that runs.
        self.max_bytes = rules.max_table_bytes // (1 + 2 * n_threads)
        self.kind = rules.trainer
        if not len(block):
            self.kind = "rows"
        elif rules.trainer == "auto":
            # The limit of a single thread: the number of threads must not decide what is trained.
            limit = rules.max_table_bytes // 3
            pays = tables_pay(len(rows.y), block, n_bags, problem.loss, rules.max_rounds, limit)
            self.kind = "tables" if pays else "rows"
        if self.kind == "tables":
            features = [feature for (feature,) in block.features]
            cells = rows.cells if len(features) == len(rows.cells) else np.ascontiguousarray(rows.cells[features])
            self.table = CrossTab(
                cells,
                block.sizes,
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
