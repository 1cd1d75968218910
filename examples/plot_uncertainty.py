"""
Looking at uncertainty
======================

Five pictures of what a model does not know: along a feature, over two features, on rows from elsewhere, as errors
avoided, and as the states of the chain it comes from. All are made by
:class:`~skboost.inspection.UncertaintyDisplay`.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import train_test_split

from skboost import SGLBClassifier, SGLBRegressor
from skboost.inspection import UncertaintyDisplay
from skboost.metrics import prediction_rejection_ratio

# %%
# Along one feature
# -----------------
#
# No plant was measured between 12 and 18 degrees, and on warm days the measurements scatter more. ``loss="gaussian"``
# predicts a variance for each row, so the model tells two kinds of uncertainty apart: the wide band is ``total``, where
# a new measurement can be expected, the narrow one within is ``knowledge``, how sure the curve itself is. Both are one
# standard deviation to each side. In the gap trees repeat what they know from its edges, and so do their members, which
# agree there more than they should: look at where the rows are, too.

rng = np.random.default_rng(0)
temperature = np.concatenate([rng.uniform(5, 12, 150), rng.uniform(18, 25, 150)])
noise = np.where(temperature < 15, 0.5, 1.5)
growth = pd.Series(8 * np.sin(temperature / 4) + temperature / 2 + noise * rng.normal(size=300), name="growth (mm)")
X = pd.DataFrame({"temperature (°C)": temperature})

# Small trees, as there are few rows.
small = {"n_estimators": 400, "learning_rate": 0.05, "max_depth": 2, "min_samples_leaf": 20}
regressor = SGLBRegressor(loss="gaussian", diffusion_temperature=1, random_state=0, **small).fit(X, growth)

UncertaintyDisplay.from_estimator(regressor, X, kind="band", y=growth)
plt.show()

# %%
# For classes the line is a probability, and the band holds 80 % of the members. What that makes in nats is drawn below.
# Rows of the class are marked at the top, all others at the bottom.

X_moons, y_moons = make_moons(400, noise=0.2, random_state=0)
X_moons = pd.DataFrame(X_moons, columns=["length (cm)", "width (cm)"])
species = np.array(["alba", "rubra"])[y_moons]
settings = {"n_estimators": 500, "max_depth": 4, "diffusion_temperature": 10, "random_state": 0}
classifier = SGLBClassifier(**settings).fit(X_moons, species)

UncertaintyDisplay.from_estimator(
    classifier, X_moons, kind="band", features="length (cm)", y=species, fixed={"width (cm)": 0.0}
)
plt.show()

# %%
# Over two features
# -----------------
#
# Both maps are of the same model. ``data`` is large where the classes overlap, and more rows would not help there.
# ``knowledge`` is large where the members disagree, mostly where rows are missing, and it shows how trees see the
# plane: in rectangles.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for quantity, ax in zip(["data", "knowledge"], axes, strict=True):
    UncertaintyDisplay.from_estimator(classifier, X_moons, kind="map", y=species, quantity=quantity, ax=ax)
plt.show()

# %%
# Rows from elsewhere
# -------------------
#
# Rows that fill the plane evenly have more ``knowledge`` uncertainty than rows like those of the training, often but
# not always. The axis is logarithmic, for knowledge spreads over orders of magnitude. The area under the ROC curve says
# how often a foreign row is the less certain one of a pair.

X_like = pd.DataFrame(make_moons(400, noise=0.2, random_state=1)[0], columns=X_moons.columns)
X_uniform = pd.DataFrame(rng.uniform(-3, 4, size=(400, 2)), columns=X_moons.columns)
UncertaintyDisplay.from_estimator(classifier, {"like the training": X_like, "uniform": X_uniform}, kind="histogram")
plt.show()

# %%
# Errors avoided
# --------------
#
# If a pathologist looks at the tumours that the model is least sure of, how many errors are left? The curve is between
# chance and an oracle that rejects exactly the wrong ones. The prediction rejection ratio is the share of the oracle's
# gain that is reached. Wrong predictions come mostly from classes that overlap, so that ``data`` finds them better than
# ``knowledge``, which is for rows from elsewhere: ``total``, the sum, is the one to reject by.

X_tumours, y_tumours = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X_tumours, y_tumours, test_size=0.5, random_state=0)
model = SGLBClassifier(**settings).fit(X_train, y_train)

display = UncertaintyDisplay.from_estimator(model, X_test, kind="retention", y=y_test)
plt.show()

u = model.predict_uncertainty(X_test)
wrong = model.classes_[u.mean.argmax(axis=1)] != y_test
for name in ("total", "data", "knowledge"):
    print(f"rejecting by {name:9s}: ratio {prediction_rejection_ratio(wrong, getattr(u, name)):.3f}")

# %%
# States of the chain
# -------------------
#
# The members are the model after so many iterations. Their spread is ``knowledge``: a state that has settled wanders
# around a level, one that still climbs asks for more iterations. One plant is from the cold days, two are from the warm
# ones; triangles are their true growth.

three = [20, 200, 250]
UncertaintyDisplay.from_estimator(regressor, X.iloc[three], kind="members", y=growth.iloc[three])
plt.show()
