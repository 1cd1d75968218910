"""Pictures of fitted models, drawn with Matplotlib."""

from skboost.inspection._importance import TermImportanceDisplay
from skboost.inspection._interaction import InteractionDisplay
from skboost.inspection._latent import LatentDisplay
from skboost.inspection._local import LocalExplanationDisplay
from skboost.inspection._shape import ShapeDisplay
from skboost.inspection._summary import plot_summary
from skboost.inspection._uncertainty import UncertaintyDisplay

__all__ = [
    "InteractionDisplay",
    "LatentDisplay",
    "LocalExplanationDisplay",
    "ShapeDisplay",
    "TermImportanceDisplay",
    "UncertaintyDisplay",
    "plot_summary",
]
