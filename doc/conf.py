"""Sphinx configuration: ``make doc`` builds with warnings as errors."""

import importlib
import inspect
import os
import re
from pathlib import Path

import skboost

HERE = Path(__file__).parent
# The gallery runs the examples from their folder; threads that wait must not spin there.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

project = "skboost"
author = "The skboost developers"
copyright = f"2026, {author}"
version = release = skboost.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "literal"
# Quotes in types and defaults are code.
smartquotes = False

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"member-order": "bysource"}
# Methods have sections of their own on the page of the class; the list of numpydoc would name them twice.
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "skboost"
html_show_sourcelink = False
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Groups of the reference in reading order: module, title, text, names. A name that is not exported yet is left out, an
# exported one that stands in no group is an error.
API_GROUPS = [
    (
        "skboost",
        "Langevin boosting",
        "Boosted trees whose states are samples of a posterior: :doc:`/user_guide/langevin_boosting`.",
        ["SGLBRegressor", "SGLBClassifier", "SGLBRanker"],
    ),
    (
        "skboost",
        "Explainable boosting",
        "Additive models that can be read term by term: :doc:`/user_guide/explainable_boosting`.",
        ["EBMRegressor", "EBMClassifier"],
    ),
    (
        "skboost.ebm",
        "Shape functions",
        "What ``shape`` and ``shape_functions`` of additive models return.",
        ["TermShape", "Axis"],
    ),
    (
        "skboost",
        "Gaussian processes",
        "Classification of small tables, and Gaussian posteriors over the leaves of boosters: "
        ":doc:`/user_guide/gaussian_process`.",
        ["LaplaceGPClassifier", "LeafLaplaceUncertainty"],
    ),
    (
        "skboost",
        "Inference",
        "Boosted trees with standard errors: :doc:`/user_guide/boulevard_trees`.",
        ["BoulevardRegressor"],
    ),
    (
        "skboost",
        "Uncertainty",
        "What ``predict_uncertainty`` returns, :doc:`/user_guide/reading_uncertainty`, and how any booster gets it, "
        ":doc:`/user_guide/uncertainty_of_any_booster`.",
        ["Uncertainty", "VirtualEnsembleUncertainty"],
    ),
    (
        "skboost.datasets",
        "Data sets",
        "Generated data of which the truth is known.",
        ["make_spiral", "make_heteroscedastic", "make_gap", "make_gaussian_grid", "GaussianGrid"],
    ),
    (
        "skboost.inspection",
        "Inspection",
        "Pictures of additive models, :doc:`/user_guide/explainable_boosting`, of uncertainty, "
        ":doc:`/user_guide/reading_uncertainty`, and of a latent function, :doc:`/user_guide/gaussian_process`.",
        [
            "plot_summary",
            "ShapeDisplay",
            "InteractionDisplay",
            "TermImportanceDisplay",
            "LocalExplanationDisplay",
            "UncertaintyDisplay",
            "LatentDisplay",
        ],
    ),
    (
        "skboost.lightgbm",
        "LightGBM",
        "Text models of LightGBM, read and written.",
        ["dump", "dumps", "load", "loads", "LoadedRegressor", "LoadedClassifier"],
    ),
    (
        "skboost.distributions",
        "Predicted distributions",
        "What ``predict_distribution`` returns, one distribution per row, :doc:`/user_guide/distributions`.",
        ["Normal", "LogNormal", "Laplace", "Gamma", "Poisson", "NegativeBinomial", "Mixture"],
    ),
    (
        "skboost.metrics",
        "Metrics",
        "What uncertainties are good for: rejecting rows that would be predicted wrongly. How well risks order times: "
        ":doc:`/user_guide/survival`. How good a ranking is: :doc:`/user_guide/ranking`.",
        [
            "retention_curve",
            "retention_auc",
            "prediction_rejection_ratio",
            "f1_retention_curve",
            "f1_retention_auc",
            "concordance_index",
            "ndcg_score",
        ],
    ),
]


def api_page():
    """Return the text of the reference page, made from the exported names."""
    modules = dict.fromkeys(module for module, *_ in API_GROUPS)
    exported = {module: importlib.import_module(module) for module in modules}
    for module, value in exported.items():
        grouped = [name for owner, _, _, names in API_GROUPS if owner in {module, "skboost"} for name in names]
        public = [name for name in value.__all__ if not name.startswith("_")]
        missing = [name for name in public if name not in grouped and not inspect.ismodule(getattr(value, name))]
        if missing:
            raise ValueError(f"doc/conf.py: put {missing} of {module} into API_GROUPS")
    lines = ["Reference", "=========", "", "The public names of skboost; everything else may change at any time.", ""]
    for module, title, text, names in API_GROUPS:
        present = [name for name in names if name in exported[module].__all__]
        if present:
            lines += [title, "-" * len(title), "", text, ""]
            lines += [f".. currentmodule:: {module}", "", ".. autosummary::", "   :toctree: .", "   :nosignatures:", ""]
            lines += [f"   {name}" for name in present] + [""]
    return "\n".join(lines)


def write_api_page():
    """Write the reference page if its text changed, before Sphinx looks for sources."""
    path = HERE / "api" / "generated" / "index.rst"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = api_page()
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


write_api_page()

# Examples can be read before the estimators they use exist, and run as soon as they do.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/(plot_\w+|quickstart)\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 5,
}


def skip_foreign_requests(app, what, name, value, skip, options):
    """Leave out methods that scikit-learn adds, for routing and for output: their text refers to its own manual."""
    if name in {"get_metadata_routing", "set_output"} or (name.startswith("set_") and name.endswith("_request")):
        return True
    return skip


def unlink_foreign_references(app, what, name, value, options, lines):
    """Keep the words of references in inherited docstrings and drop their targets, labels of scikit-learn's manual."""
    if getattr(value, "__module__", "").startswith("sklearn."):
        lines[:] = re.sub(r":ref:`(.*?)\s*<.*?>`", r"\1", "\n".join(lines), flags=re.DOTALL).split("\n")


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_requests)
    app.connect("autodoc-process-docstring", unlink_foreign_references)
