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

model = SGLBRegressor(loss="gaussian", random_state=0).fit(X_train, y_train)
u = model.predict_uncertainty(X_test)

# %%
# Standard deviations are in units of the target, here a score of disease progression one year on.

print(f"R2 on {len(y_test)} test patients: {model.score(X_test, y_test):.3f}")
print()
print("observed   mean  sd(knowledge)  sd(data)  sd(total)")
for i in range(8):
    print(
        f"{y_test[i]:8.0f} {u.mean[i]:6.0f} {u.knowledge[i] ** 0.5:14.1f} "
        f"{u.data[i] ** 0.5:9.1f} {u.total[i] ** 0.5:10.1f}"
    )

# %%
# Left: predictions with bars of one standard deviation of the total. Right: what the total is made of, patients sorted
# by it.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")

left.errorbar(u.mean, y_test, xerr=u.total**0.5, fmt="o", ms=4, lw=0.8, alpha=0.6)
limits = [y.min(), y.max()]
left.plot(limits, limits, color="black", lw=1)
left.set(xlabel="predicted mean ± sd(total)", ylabel="observed", title="Predictions on test patients")

order = u.total.argsort()
right.stackplot(range(len(order)), u.data[order], u.knowledge[order], labels=["data", "knowledge"])
right.set(xlabel="test patients, sorted by total", ylabel="variance", title="total = data + knowledge")
right.margins(x=0)
right.legend(loc="upper left")

figure.savefig("quickstart.png", dpi=120)
print()
print("saved quickstart.png")
