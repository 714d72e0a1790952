"""A kernel on things that are not vectors: shopping baskets
=========================================================

A basket is a set of products. With m the number of products that two baskets have in common, the kernel 2^m
counts the sets of products that both contain, so it sees pairs and triples; the kernel m sees single products
only. Divided by the root of what each basket has with itself, 2^m gives all baskets the same prior variance.
The price below has discounts for pairs. The evidence tells which kernel suits before any test basket is seen;
in the last picture it has chosen the base as well.
"""

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skspectral import SpectralGPRegressor
from skspectral.kernels import Normalized, SetKernel

PRODUCTS = ["bread", "butter", "milk", "eggs", "cheese", "wine", "pasta", "basil", "coffee", "sugar", "tea"]
KERNELS = {
    "|A ∩ B|": SetKernel("intersection"),
    "2^|A ∩ B|": SetKernel(base=2.0, base_bounds="fixed"),
    "2^|A ∩ B|, unit variance": Normalized(SetKernel(base=2.0, base_bounds="fixed")),
    "base learned": SetKernel(),
}


def make_baskets(n, rng):
    """Return baskets of two to seven products, and what they cost."""
    price = dict(zip(PRODUCTS, rng.uniform(1, 5, len(PRODUCTS)), strict=True))
    pairs = list(combinations(PRODUCTS, 2))
    discount = {pairs[i]: rng.uniform(-4, -1) for i in rng.choice(len(pairs), 12, replace=False)}
    baskets = [set(rng.choice(PRODUCTS, rng.integers(2, 8), replace=False).tolist()) for _ in range(n)]
    cost = [
        sum(price[p] for p in basket) + sum(d for pair, d in discount.items() if basket.issuperset(pair))
        for basket in baskets
    ]
    return baskets, np.array(cost) + rng.normal(0, 0.3, n)


def main():
    """Fit all kernels, draw predictions with their intervals."""
    baskets, cost = make_baskets(400, np.random.default_rng(0))
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.4), sharex=True, sharey=True, layout="constrained")
    colors = ("#D55E00", "#009E73", "#0072B2", "#CC79A7")
    for ax, (name, kernel), color in zip(axes, KERNELS.items(), colors, strict=True):
        gp = SpectralGPRegressor(kernel).fit(baskets[:250], cost[:250])
        mean = gp.predict(baskets[250:])
        lower, upper = gp.predict_interval(baskets[250:])
        error = np.sqrt(np.mean((mean - cost[250:]) ** 2))
        ax.axline((10, 10), slope=1, color="grey", lw=0.8)
        bars = np.array([mean - lower, upper - mean])
        ax.errorbar(cost[250:], mean, yerr=bars, fmt=".", color=color, ecolor=color, elinewidth=0.5)
        evidence = gp.log_marginal_likelihood_value_
        learned = f": {gp.kernel_.base:.2f}^|A ∩ B|" if name == "base learned" else ""
        title = f"{name}{learned}\nlog evidence {evidence:.0f}, rms error {error:.2f}"
        ax.set(title=title, xlabel="true price")
        print(f"{name:25s} log evidence {evidence:8.1f}  rms error {error:.3f}  {gp.kernel_}")
    axes[0].set_ylabel("predicted price, 95 % interval")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
