"""Classes by a Gaussian process: probabilities that know where they were taught
=============================================================================

Left: three classes, found jointly by the softmax of three latent functions; the colour is the most probable
class, and the paler it is, the less certain. Right: predicted probabilities against how often they came
true, beside those of scikit-learn's GaussianProcessClassifier, on digits 3 and 5 (the latter is far too
unsure of what it knows).
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skspectral import KernelBoundWarning, SpectralGPClassifier

COLOURS = np.array([[0.0, 0.447, 0.698], [0.835, 0.369, 0.0], [0.0, 0.62, 0.451]])


def three_classes():
    """Return points of three arms of a spiral."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    radius = rng.uniform(0.3, 3.0, 180)
    angle = radius + 2.0 * np.pi / 3.0 * y + 0.25 * rng.normal(size=180)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def draw_probabilities(ax):
    """Draw the mixture of colours by predicted probabilities."""
    X, y = three_classes()
    model = SpectralGPClassifier().fit(X, y)
    side = np.linspace(-5, 5, 90)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    P = model.predict_proba(grid)
    certainty = (P.max(axis=1, keepdims=True) - 1 / 3) * 1.5
    picture = 1.0 - certainty * (1.0 - COLOURS[P.argmax(axis=1)])
    ax.imshow(picture.reshape(90, 90, 3), extent=(-5, 5, -5, 5), origin="lower", interpolation="bilinear")
    ax.scatter(*X.T, c=COLOURS[y], edgecolors="white", linewidths=0.6, s=22)
    ax.set(title="Three classes: pale where nothing is known", xlabel="x₁", ylabel="x₂")
    print(f"spiral: {model.kernel_}, signal variance {model.signal_variance_:.3g}")


def draw_calibration(ax):
    """Draw calibration curves of both classifiers."""
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 5])
    X_train, X_test, y_train, y_test = train_test_split(
        X[keep] / 16, (y[keep] == 5).astype(int), train_size=0.5, random_state=0, stratify=y[keep]
    )
    models = {
        "SpectralGPClassifier": SpectralGPClassifier(),
        "GaussianProcessClassifier": GaussianProcessClassifier(ConstantKernel() * RBF(2.0)),
    }
    for (name, model), colour in zip(models.items(), COLOURS, strict=False):
        P = model.fit(X_train, y_train).predict_proba(X_test)
        loss = log_loss(y_test, P)
        print(f"{name}: log loss {loss:.3f}, accuracy {model.score(X_test, y_test):.3f}")
        label = f"{name}, log loss {loss:.3f}"
        CalibrationDisplay.from_predictions(y_test, P[:, 1], n_bins=4, name=label, ax=ax, color=colour)
    ax.legend(loc="upper left", fontsize="small")
    ax.set_ylim(-0.05, 1.35)
    ax.set(title="Digits 3 and 5", xlabel="predicted probability of a 5", ylabel="share of 5")


def main():
    """Draw both."""
    warnings.simplefilter("ignore", KernelBoundWarning)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    draw_probabilities(axes[0])
    draw_calibration(axes[1])
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
