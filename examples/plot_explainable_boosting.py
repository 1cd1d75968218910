"""
Reading a model from top to bottom
==================================

:class:`~skboost.EBMRegressor` adds up one number per feature and one per chosen pair of features. What it has learned
can be looked at, term by term, and what is seen is all there is. The data are 442 patients with diabetes: ten
measurements, and the progress of the disease one year later.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_score

from skboost import EBMRegressor
from skboost.inspection import InteractionDisplay, LocalExplanationDisplay, ShapeDisplay, plot_summary

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
names = {"bp": "blood pressure", "s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "cholesterol / hdl"}
names |= {"s5": "log triglycerides", "s6": "glucose"}
X = X.rename(columns=names)
# A code, not a number: 1 and 2.
X["sex"] = X["sex"].map({1: "first", 2: "second"}).astype("category")

# %%
# Does it predict well enough to be worth reading?
# ------------------------------------------------
#
# Mean R2 of five folds, beside boosted trees.

for model in (EBMRegressor(random_state=0), HistGradientBoostingRegressor(random_state=0)):
    scores = cross_val_score(model, X, y)
    print(f"{type(model).__name__:30s} {scores.mean():.3f}")

# %%
# The whole model
# ---------------
#
# Curves share their vertical axis, so that their heights can be compared. The strip below a curve shows where the
# patients are, the band how much the 14 bags differ.

model = EBMRegressor(random_state=0).fit(X, y)
figure = plot_summary(model, coverage=0.98, title="Progress of diabetes after one year")
plt.show()

# %%
# One curve
# ---------
#
# The steps are the model: between two cuts nothing is interpolated. Zero is the average patient.

ShapeDisplay.from_estimator(model, "bmi")
plt.show()

shape = model.shape("bmi")
for bmi in (20, 25, 30, 35):
    print(f"a body mass index of {bmi} adds {shape.value(bmi):+6.1f}")

# %%
# One pair
# --------
#
# Pairs are purified: this is what the two features do together, beyond what their own curves say. Cells without
# patients are pale.

pairs = [name for name in model.term_names_ if "&" in name]
importances = dict(zip(model.term_names_, model.term_importances(), strict=True))
strongest = max(pairs, key=importances.get)
InteractionDisplay.from_estimator(model, strongest, coverage=0.98)
plt.show()

# %%
# One patient
# -----------
#
# The intercept and the bars add up to the prediction.

patient = X.iloc[[10]]
LocalExplanationDisplay.from_estimator(model, patient, y=y.iloc[10])
plt.show()

total = model.intercept_ + model.eval_terms(patient).sum()
print(f"intercept and terms {total:.10f}, prediction {model.predict(patient)[0]:.10f}")

# %%
# Changing what is read
# ---------------------
#
# Suppose that more blood pressure cannot mean less progress. The curve is replaced by the closest increasing one; its
# dips are gone, everything else stays.

edited = model.copy().monotonize("blood pressure", increasing=True)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
ShapeDisplay.from_estimator(model, "blood pressure", ax=left)
ShapeDisplay.from_estimator(edited, "blood pressure", ax=right)
right.set_title("blood pressure, made increasing", loc="left", fontsize=10.5, fontweight="bold")
right.set_ylabel("")
plt.show()

change = abs(edited.predict(X) - model.predict(X))
print(f"largest change of a prediction: {change.max():.1f}; R2 {model.score(X, y):.3f} -> {edited.score(X, y):.3f}")
