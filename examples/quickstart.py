"""
Quick start
===========

One fit of :class:`~skboost.SGLBRegressor` with the gaussian loss predicts a mean and says how sure it is of it. The
total variance of a new target is the sum of two parts: *data*, the spread that the target has around its mean, and
*knowledge*, how far the mean itself is left open by the training rows.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from skboost import SGLBRegressor

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# 331 noisy rows: small trees, small steps, and the temperature of the exact posterior.
model = SGLBRegressor(
    loss="gaussian",
    n_estimators=300,
    learning_rate=0.02,
    max_depth=2,
    min_samples_leaf=20,
    diffusion_temperature=1,
    averaging="mean",
    random_state=0,
)
model.fit(X_train, y_train)
u = model.predict_uncertainty(X_test)

# %%
# Standard deviations are in units of the target, here a score of disease progression one year on.

within = abs(y_test - u.mean) < u.total**0.5
print(f"{len(y_test)} test patients: R2 {model.score(X_test, y_test):.2f}, {within.mean():.0%} within one sd(total)")
print()
print("observed   mean  sd(knowledge)  sd(data)  sd(total)")
for i in range(8):
    print(
        f"{y_test[i]:8.0f} {u.mean[i]:6.0f} {u.knowledge[i] ** 0.5:14.1f} "
        f"{u.data[i] ** 0.5:9.1f} {u.total[i] ** 0.5:10.1f}"
    )

# %%
# Left: predictions with bars of one standard deviation of the total. Right: the two parts, which need not go together.
# High up the members of the model disagree; far right they agree that outcomes vary.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")

left.errorbar(u.mean, y_test, xerr=u.total**0.5, fmt="o", ms=4, lw=0.8, alpha=0.6)
limits = [y.min(), y.max()]
left.plot(limits, limits, color="black", lw=1)
left.set(xlabel="predicted mean ± sd(total)", ylabel="observed", title="Predictions on test patients")

right.scatter(u.data**0.5, u.knowledge**0.5, s=16, alpha=0.6)
right.set(xlabel="sd(data)", ylabel="sd(knowledge)", title="Two kinds of uncertainty", ylim=(0, None))

figure.savefig("quickstart.png", dpi=120)
print()
print("saved quickstart.png")
