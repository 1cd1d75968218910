"""Which back end trains the main effects: the rows, or tables of co-occurrence whose updates do not touch the rows."""

from skboost._engine.row_state import RowState


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
        self.kind = "rows"

    def back_end(self, scores, train, held, saturated):
        """Return the back end of a bag; the arguments are those of `row_back_end`."""
        return row_back_end(self.problem, self.block, scores, train, held, saturated)
