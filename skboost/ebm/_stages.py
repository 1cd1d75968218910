"""Boosting of all bags: main effects, ranking of pairs, pairs; one Python thread per bag, none of which holds the GIL.

A bag's model depends on the rows, its number and the seed only, so the number of threads has no influence. Rows are
distinct and in the order of their content (`skboost._sampling.CanonicalRows`), and every sum runs in that order.
"""

import warnings
from dataclasses import dataclass, fields

import numpy as np

from skboost._engine.stage_loop import Stage
from skboost._losses import fit_intercept
from skboost.ebm._interactions import pair_strengths, rank_pairs
from skboost.ebm._progress import STAGES, for_each_bag
from skboost.ebm._terms import TermBlock, contributions, main_block, pair_block
from skboost.ebm._trainers import Tables, row_back_end

MAINS, PAIRS = 0, 1
# Bags that run at the same time hold no more than this together, besides their rows: the model and the weights of the
# cells of each.
WORKING_BYTES = 2**26


@dataclass(frozen=True)
class Rules:
    """Parameters of boosting, by the names and with the meaning they have in the estimators."""

    max_rounds: int
    max_leaves: int
    min_samples_leaf: float
    min_hessian: float
    l2_regularization: float
    learning_rate: float
    early_stopping_rounds: int
    early_stopping_tolerance: float
    smoothing_rounds: int
    interaction_smoothing_rounds: int
    greedy_ratio: float
    cyclic_progress: float
    missing: str
    min_cat_samples: float
    cat_smooth: float
    gain_scale: float
    trainer: str
    max_table_bytes: int

    @classmethod
    def of(cls, params):
        """Return the rules from any object with attributes of these names."""
        return cls(**{field.name: getattr(params, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Rows:
    """Distinct rows in the order of their content.

    Attributes
    ----------
    cells : ndarray of shape (n_features, n_rows)
        uint16 cells.
    y : ndarray of shape (n_rows,)
        Internal targets.
    weight : ndarray of shape (n_rows,)
        Weights of all copies.
    n_copies : ndarray of shape (n_rows,)
        Number of copies.
    init : ndarray of shape (n_outputs, n_rows) or None
        Raw scores to start from.
    """

    cells: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    n_copies: np.ndarray
    init: np.ndarray | None


@dataclass(frozen=True)
class Problem:
    """All that a fit boosts on.

    Attributes
    ----------
    loss : Loss
    rows : Rows
    mapper : CellMapper
    monotone : ndarray of shape (n_features,)
        Constraints.
    bags : Bags
    rules : Rules
    seed : int
    """

    loss: object
    rows: Rows
    mapper: object
    monotone: np.ndarray
    bags: object
    rules: Rules
    seed: int


@dataclass(frozen=True)
class Boosted:
    """Terms of all bags as boosting left them.

    Attributes
    ----------
    mains, pairs : TermBlock
        Terms.
    main_scores, pair_scores : ndarray of shape (n_bags, n_cells, n_outputs)
        Scores of their cells.
    intercepts : ndarray of shape (n_bags, n_outputs)
        Raw scores that boosting started from.
    bag_weights : ndarray of shape (n_bags,)
        Weight of the training rows.
    best_iteration : ndarray of shape (n_stages, n_bags)
        Number of steps kept.
    """

    mains: TermBlock
    main_scores: np.ndarray
    pairs: TermBlock
    pair_scores: np.ndarray
    intercepts: np.ndarray
    bag_weights: np.ndarray
    best_iteration: np.ndarray


def boost(problem, plan, n_threads, progress):
    """Boost all bags.

    Parameters
    ----------
    problem : Problem
        Rows, loss and rules.
    plan : TermPlan
        Which terms are wanted.
    n_threads : int
        Number of threads.
    progress : Progress
        What is told, and who may stop a stage.

    Returns
    -------
    Boosted
        The terms.
    """
    n_bags, n_rows = len(problem.bags), len(problem.rows.y)
    n_threads = min(n_threads, n_bags)
    job = _Job(problem, plan, n_threads, progress)
    progress.start(MAINS, n_rows=n_rows, n_terms=len(job.mains), trainer=job.tables.kind, n_threads=n_threads)
    for_each_bag(job.boost_mains, n_bags, threads_within_memory(n_threads, job.main_scores), progress)
    job.choose_pairs()
    if len(job.pairs):
        progress.start(PAIRS, n_rows=n_rows, n_terms=len(job.pairs), n_threads=n_threads)
        for_each_bag(job.boost_pairs, n_bags, threads_within_memory(n_threads, job.pair_scores), progress)
    job.warn()
    return Boosted(
        job.mains, job.main_scores, job.pairs, job.pair_scores, job.intercepts, job.bag_weights, job.best_iteration
    )


def threads_within_memory(n_threads, scores):
    """Return how many bags may run at once, given the array of the scores of all of them."""
    return max(1, min(n_threads, WORKING_BYTES // max(1, 2 * scores[0].nbytes)))


class _Job:
    """Both stages of all bags; methods that take a bag run in threads and write to places of their own."""

    def __init__(self, problem, plan, n_threads, progress):
        self.problem, self.plan, self.progress = problem, plan, progress
        n_bags, n_outputs, mapper = len(problem.bags), problem.loss.n_outputs, problem.mapper
        self.coarse = [mapper.coarse(feature) for feature in range(mapper.n_features)]
        self.mains, self.pairs = main_block(plan.mains, mapper.n_cells), TermBlock((), ())
        # Best tensors are written straight into these; the pages of bags that have not run yet take no memory.
        self.main_scores = np.zeros((n_bags, self.mains.n_cells, n_outputs))
        self.pair_scores = np.zeros((n_bags, 0, n_outputs))
        self.intercepts = np.zeros((n_bags, n_outputs))
        self.bag_weights = np.zeros(n_bags)
        self.best_iteration = np.zeros((2, n_bags), dtype=np.int64)
        self.null_metric = np.full(n_bags, np.nan)
        self.saturated = problem.loss.saturated(problem.rows.y)
        self.tables = Tables(problem, self.mains, n_threads)
        self.strengths = np.zeros((n_bags, len(plan.candidates))) if plan.n_automatic else None
        self.diverged, self.absurd = [], []

    # ---- main effects

    def boost_mains(self, bag):
        """Boost the main effects of a bag, and measure the pairs."""
        rows, loss = self.problem.rows, self.problem.loss
        train, held = self.problem.bags[bag]
        self.bag_weights[bag] = train.sum()
        self.intercepts[bag] = fit_intercept(loss, rows.y, rows.init, train)
        if len(self.mains):
            back_end = self.tables.back_end(self._scores(bag), train, held, self.saturated)
            self._boost(back_end, self.mains, MAINS, bag, self.main_scores[bag])
            del back_end
        if self.strengths is not None:
            self.strengths[bag] = pair_strengths(self.problem, self.plan.candidates, self._scores(bag), train)

    def choose_pairs(self):
        """Decide on the pairs when all bags have measured them, and make room for their scores."""
        pairs = self.plan.pairs
        if self.strengths is not None:
            pairs = rank_pairs(self.plan.candidates, self.strengths, self.plan.n_automatic)
        self.tables = None
        self.pairs = pair_block(pairs, self.coarse)
        self.pair_scores = np.zeros((len(self.problem.bags), self.pairs.n_cells, self.problem.loss.n_outputs))

    # ---- pairs

    def boost_pairs(self, bag):
        """Boost the pairs of a bag on top of its main effects."""
        train, held = self.problem.bags[bag]
        back_end = row_back_end(self.problem, self.pairs, self._scores(bag), train, held, self.saturated)
        self._boost(back_end, self.pairs, PAIRS, bag, self.pair_scores[bag])

    # ---- both

    def _scores(self, bag):
        """Raw scores of the rows by the intercept and the main effects of the bag so far, (n_outputs, n_rows)."""
        rows, n_outputs = self.problem.rows, self.problem.loss.n_outputs
        scores = np.empty((n_outputs, rows.cells.shape[1]))
        scores[:] = self.intercepts[bag][:, None]
        if rows.init is not None:
            scores += rows.init
        tensors = self.mains.views(self.main_scores[bag])
        for part in contributions(self.mains.features, tensors, rows.cells, self.coarse):
            scores += part.T
        return scores

    def _boost(self, back_end, block, stage, bag, out):
        """Run a stage of a bag; its best scores go to `out`."""
        rules, problem, n_outputs = self.problem.rules, self.problem, self.problem.loss.n_outputs
        if stage == MAINS:
            self.null_metric[bag] = back_end.refresh()
        first = [features[0] for features in block.features]
        smoothing = rules.smoothing_rounds if stage == MAINS else rules.interaction_smoothing_rounds
        loop = Stage(
            back_end,
            back_end.term_sizes,
            problem.mapper.is_categorical[first] if stage == MAINS else np.zeros(len(block), dtype=bool),
            problem.monotone[first] if stage == MAINS else np.zeros(len(block), dtype=np.int8),
            n_outputs=n_outputs,
            learning_rate=rules.learning_rate * (1 - 1 / n_outputs if n_outputs > 1 else 1),
            max_rounds=rules.max_rounds,
            max_leaves=rules.max_leaves,
            min_samples_leaf=rules.min_samples_leaf,
            min_hessian=rules.min_hessian,
            l2_regularization=rules.l2_regularization,
            smoothing_rounds=smoothing,
            greedy_ratio=rules.greedy_ratio,
            cyclic_progress=rules.cyclic_progress,
            early_stopping_rounds=rules.early_stopping_rounds,
            early_stopping_tolerance=rules.early_stopping_tolerance,
            missing=rules.missing,
            min_cat_samples=rules.min_cat_samples,
            cat_smooth=rules.cat_smooth,
            gain_scale=rules.gain_scale,
            null_metric=self.null_metric[bag],
            seed=problem.seed,
            bag=bag,
            stage_number=stage,
            out=out,
        )
        self.progress.run(loop, bag, stage)
        self.best_iteration[stage, bag] = loop.best_step
        if loop.reason == "diverged":
            self.diverged.append((stage, bag, loop.n_steps))
        size = max(float(out.max(initial=0.0)), -float(out.min(initial=0.0)))
        if not size <= problem.loss.largest_score:
            self.absurd.append((stage, bag, size))

    def warn(self):
        """Tell of the stages whose updates became infinite, or whose scores are beyond what the loss can tell apart."""
        for stage, bag, size in sorted(self.absurd):
            warnings.warn(
                f"Boosting the {STAGES[stage]} of bag {bag} diverged: a term has scores up to {size:g}, raw scores "
                f"beyond {self.problem.loss.largest_score:g} mean nothing to the loss. Use min_hessian or "
                "l2_regularization above 0, a smaller learning_rate, or an init_score nearer to the target.",
                RuntimeWarning,
                stacklevel=2,
            )
        for stage, bag, n_steps in sorted(self.diverged):
            warnings.warn(
                f"Boosting the {STAGES[stage]} of bag {bag} ended after {n_steps} steps: the next one is not finite. "
                "Use a smaller learning_rate, or min_hessian or l2_regularization above 0.",
                RuntimeWarning,
                stacklevel=2,
            )
