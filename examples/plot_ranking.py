"""
Ranking the offers of a search
==============================

Travellers search for hotels; each search finds some offers, of which they ignore most, look at a few and book at most
one. What matters is the order of the offers of one search. :class:`~skboost.SGLBRanker` learns it, and a regression
on the same relevances shows what is lost when rows of different searches are compared.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import GroupShuffleSplit

from skboost import SGLBRanker, SGLBRegressor
from skboost.metrics import ndcg_score

# %%
# Searches and offers
# -------------------
#
# A traveller likes stars and reviews and dislikes the price, compared with the other offers of the search. Cities
# differ in their prices and seasons in their demand, which moves the relevances of a whole search up or down but says
# nothing about the order within it.


def searches(n_searches, seed):
    """Return offers with price, stars, review and distance, their relevance from 0 to 4, and the search of each."""
    rng = np.random.default_rng(seed)
    search = np.repeat(np.arange(n_searches), rng.integers(6, 25, n_searches))
    n = len(search)
    level, demand = rng.normal(size=n_searches)[search], rng.normal(size=n_searches)[search]
    stars = rng.integers(1, 6, n).astype(float)
    price = np.exp(4 + 0.6 * level + 0.2 * stars + 0.3 * rng.normal(size=n))
    review, distance = rng.beta(6, 3, n) * 10, rng.gamma(2.0, 2.0, n)
    worth = 0.8 * stars + 0.6 * review - 5 * (np.log(price) - 0.6 * level - 4) - 0.3 * distance
    appeal = worth + rng.normal(size=n) + 2 * demand
    relevance = np.digitize(appeal, np.quantile(appeal, [0.5, 0.75, 0.9, 0.97])).astype(float)
    return np.column_stack([price, stars, review, distance]), relevance, search


X, y, search = searches(400, seed=0)
train, test = next(GroupShuffleSplit(test_size=0.4, random_state=0).split(X, y, search))
print(f"{len(np.unique(search))} searches, {len(y)} offers; relevances {np.bincount(y.astype(int))}")

# %%
# Two rankers and a regression
# ----------------------------
#
# The rankers get the search of every offer as ``qid``. NDCG@3 looks at the three offers on top.

models = {
    "lambdarank": SGLBRanker(loss="lambdarank", random_state=0).fit(X[train], y[train], qid=search[train]),
    "rank_xendcg": SGLBRanker(loss="rank_xendcg", random_state=0).fit(X[train], y[train], qid=search[train]),
    "regression": SGLBRegressor(n_estimators=100, posterior_sampling=False).fit(X[train], y[train]),
}
scores = {name: model.predict(X[test]) for name, model in models.items()}
scores["by price"] = -X[test, 0]
scores["no order"] = np.zeros(len(test))
for name, score in scores.items():
    print(f"{name:12s} NDCG@3 {ndcg_score(y[test], score, qid=search[test], k=3):.3f}")

# %%
# The gain of each number of places.

places = np.arange(1, 11)
fig, ax = plt.subplots(figsize=(6, 4))
for name, score in scores.items():
    curve = [ndcg_score(y[test], score, qid=search[test], k=k) for k in places]
    ax.plot(places, curve, marker="o", label=name)
ax.set(xlabel="places k", ylabel="NDCG@k")
ax.legend()
fig.tight_layout()

# %%
# How sure is the first place?
# ----------------------------
#
# With noise the late states of the chain are members of a virtual ensemble, each with an order of its own. Where they
# agree about the first place, the offer there is more often the best one.

noisy = SGLBRanker(
    n_estimators=300, posterior_sampling=True, diffusion_temperature=1.0, random_state=0
).fit(X[train], y[train], qid=search[train])  # fmt: skip
members = noisy.predict_virtual_ensembles(X[test], n_members=20)
agreement, good = [], []
for label in np.unique(search[test]):
    here = search[test] == label
    firsts = np.bincount(members[:, here].argmax(axis=1), minlength=here.sum())
    agreement.append(firsts.max() / len(members))
    good.append(y[test][here][firsts.argmax()] == y[test][here].max())
agreement, good = np.array(agreement), np.array(good)
sure = agreement >= np.median(agreement)
print(
    f"first place is a best offer: {good[sure].mean():.2f} where members agree most, {good[~sure].mean():.2f} elsewhere"
)

fig, ax = plt.subplots(figsize=(6, 4))
edges = np.quantile(agreement, [0, 1 / 3, 2 / 3, 1])
thirds = np.digitize(agreement, edges[1:-1], right=True)
ax.bar(range(3), [good[thirds == t].mean() if (thirds == t).any() else np.nan for t in range(3)], width=0.6)
ax.set_xticks(range(3), ["least", "middle", "most"])
ax.set(xlabel="agreement of the members about the first place", ylabel="share of searches with a best offer first")
fig.tight_layout()
plt.show()
