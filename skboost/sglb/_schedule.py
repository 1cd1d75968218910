"""What turns user parameters into the numbers of a Langevin chain: temperature, noise, shrinkage, number of columns.

Notation as in the user guide: eps the learning rate, T the inverse temperature per row, gamma the model shrink rate.
Source: Ustimenko and Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting", ICML 2021.
"""

import math
import numbers
from dataclasses import dataclass

# Inverse temperature of posterior sampling when none is given; chosen by measurement, see "What is measured".
DEFAULT_TEMPERATURE = 100.0
# Chance of a drawn split, number of prior cuts and their reach, of posterior sampling; chosen by measurement too.
DEFAULT_PRIOR_SPLIT_RATE = 0.15
DEFAULT_PRIOR_CUTS = 32
DEFAULT_CUT_MARGIN = 0.5
# CatBoost's inverse temperature of Langevin boosting without posterior sampling.
LANGEVIN_TEMPERATURE = 10000.0


@dataclass(frozen=True)
class Dynamics:
    """Noise and shrinkage of a chain.

    Attributes
    ----------
    temperature : float
        Inverse temperature T; 0 means no noise.
    shrink_rate : float
        gamma.
    decreasing : bool
        Whether the shrinkage falls with the iteration.
    """

    temperature: float
    shrink_rate: float
    decreasing: bool

    @property
    def noisy(self):
        """Whether the chain has Langevin noise."""
        return self.temperature > 0

    def sigma(self, learning_rate, noise_variance):
        """Return the standard deviation of the noise on the gradient of one row."""
        return math.sqrt(2.0 * noise_variance / (learning_rate * self.temperature)) if self.noisy else 0.0

    def shrink_factor(self, iteration, learning_rate):
        """Return the factor on the model before the given iteration (counted from 0)."""
        if iteration == 0 or self.shrink_rate == 0.0:
            return 1.0
        return 1.0 - (self.shrink_rate / iteration if self.decreasing else self.shrink_rate * learning_rate)


def resolve_dynamics(params, total_weight):
    """Return the dynamics that the parameters ask for; :func:`check_dynamics` has accepted them.

    Parameters
    ----------
    params : object
        With the attributes posterior_sampling, langevin, diffusion_temperature, model_shrink_rate, model_shrink_mode.
    total_weight : float
        Sum of the sample weights.

    Returns
    -------
    Dynamics

    Raises
    ------
    ValueError
        If the weights are so small that the shrinkage would not leave a positive share of the model.
    """
    noisy = params.posterior_sampling if params.langevin is None else params.langevin
    if not noisy:
        temperature = 0.0
    elif params.diffusion_temperature is not None:
        temperature = float(params.diffusion_temperature)
    else:
        temperature = DEFAULT_TEMPERATURE if params.posterior_sampling else LANGEVIN_TEMPERATURE
    rate = 0.5 / total_weight if params.posterior_sampling else (params.model_shrink_rate or 0.0)
    if params.posterior_sampling and rate * params.learning_rate >= 1:
        raise ValueError(
            f"sample_weight sums to {total_weight:g}. With posterior_sampling=True weights count rows and their sum "
            f"must be above learning_rate / 2 = {params.learning_rate / 2:g}; multiply them to a mean near 1."
        )
    return Dynamics(temperature, float(rate), params.model_shrink_mode == "decreasing")


def check_dynamics(params):
    """Raise ValueError for combinations of parameters that contradict each other."""
    noisy = params.posterior_sampling if params.langevin is None else params.langevin
    rate, mode = params.model_shrink_rate, params.model_shrink_mode
    if params.posterior_sampling:
        if params.langevin is False:
            raise ValueError("posterior_sampling=True needs noise, so langevin must be None or True, got False.")
        if rate is not None:
            raise ValueError(
                "posterior_sampling=True sets the shrink rate itself, so model_shrink_rate must be None, "
                f"got {rate!r}; with posterior_sampling=False and langevin=True it is free."
            )
        if mode != "constant":
            raise ValueError(f"posterior_sampling=True needs model_shrink_mode='constant', got {mode!r}.")
    if params.diffusion_temperature is not None and not noisy:
        raise ValueError(
            f"diffusion_temperature={params.diffusion_temperature!r} needs noise: set posterior_sampling=True or "
            "langevin=True."
        )
    if mode == "decreasing":
        if rate is None or not 0 < rate < 1:
            raise ValueError(f"model_shrink_mode='decreasing' needs model_shrink_rate in (0, 1), got {rate!r}.")
    elif rate is not None and rate * params.learning_rate >= 1:
        raise ValueError(f"model_shrink_rate * learning_rate must be below 1, got {rate!r} * {params.learning_rate!r}.")


@dataclass(frozen=True)
class PriorRules:
    """Cuts and splits that follow a prior instead of the data.

    Attributes
    ----------
    split_rate : float
        Chance that a split is drawn.
    n_cuts : int
        Number of prior cuts of a numeric column.
    margin : float
        How far they reach beyond the data, in units of the range.
    """

    split_rate: float
    n_cuts: int
    margin: float

    @property
    def active(self):
        """Whether trees differ from those without a prior on structures."""
        return self.split_rate > 0 or self.n_cuts > 0


def resolve_prior(params):
    """Return the prior on structures that the parameters ask for.

    Parameters
    ----------
    params : object
        With the attributes posterior_sampling, prior_split_rate, n_prior_cuts, cut_margin; None stands for the default
        that goes with the others.

    Returns
    -------
    PriorRules

    Raises
    ------
    ValueError
        If `cut_margin` is given without prior cuts.
    """
    rate, n_cuts = params.prior_split_rate, params.n_prior_cuts
    if rate is None:
        rate = DEFAULT_PRIOR_SPLIT_RATE if params.posterior_sampling else 0.0
    if n_cuts is None:
        n_cuts = DEFAULT_PRIOR_CUTS if rate > 0 else 0
    if params.cut_margin is not None and not n_cuts:
        raise ValueError(
            f"cut_margin={params.cut_margin!r} needs prior cuts: set n_prior_cuts or prior_split_rate above 0, or "
            "cut_margin=None."
        )
    return PriorRules(float(rate), int(n_cuts), DEFAULT_CUT_MARGIN if params.cut_margin is None else params.cut_margin)


def n_drawn_features(max_features, n_features):
    """Return the number of columns that a tree may use."""
    if not isinstance(max_features, numbers.Integral):
        return max(1, min(n_features, int(float(max_features) * n_features + 1e-9)))
    return min(int(max_features), n_features)
