"""Eigenvalues, noise and where the targets' energy lies."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .canvas import BLACK, COLORS, GREY, Display
from .view import rotated_targets, spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumDisplay"]


@dataclass
class SpectrumDisplay(Display):
    """Variance by eigendirection: signal, noise floor, effective degrees of freedom, energy of the targets.

    Make it with `from_estimator`.

    Attributes
    ----------
    eigenvalues : ndarray of shape (r,)
        Of the kernel matrix outside the mean space, descending.
    signal_variance, noise_variance : float
        Of the output shown.
    effective_dof : float
        sum s/(s+g), g the noise ratio: directions that the model learns from; the intercept is not counted.
    energy : ndarray of shape (r,) or None
        Squared rotated targets y~^2 in the same order; None where the targets are not known.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Notes
    -----
    If the model is right, y~_i^2 scatters around signal_variance s_i + noise_variance like chi-squared
    with one degree of freedom. Where the signal is above the noise floor a direction is learned.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor, SpectrumDisplay, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> gp = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, y)
    >>> display = SpectrumDisplay.from_estimator(gp)
    >>> round(display.effective_dof, 1)
    10.2
    >>> plt.close(display.figure_)
    """

    eigenvalues: np.ndarray
    signal_variance: float
    noise_variance: float
    effective_dof: float
    energy: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, output: int = 0, y: ArrayLike | None = None, ax: "Axes | None" = None
    ) -> Self:
        """Collect the spectrum of a fitted estimator and draw it.

        Parameters
        ----------
        estimator : estimator
            A fitted SpectralKernelRidge or SpectralGPRegressor, or a Pipeline or search that ends with one.
        output : int, default=0
            Which output.
        y : array-like, default=None
            Training targets. SpectralKernelRidge does not keep them: without them its picture has no energy.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        SpectrumDisplay
        """
        model = spectral(estimator)
        s = model.spectrum_.s
        if not s.any():
            raise ValueError("There is no spectrum to show: the kernel matrix is 0 beside the intercept.")
        signal, noise = (float(np.ravel(v)[output]) for v in (model.signal_variance_, model.noise_variance_))
        ratio = model.tuning_[output].noise_ratio
        energy = None
        if y is not None or hasattr(model, "y_train_"):
            rotated = rotated_targets(model, y)
            energy = (rotated.y_tilde[:, output] * rotated.scale[output])[::-1] ** 2
        return cls(s[::-1], signal, noise, float((s / (s + ratio)).sum()), energy).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the spectrum.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        SpectrumDisplay
        """
        ax = self._take_axes(ax)
        signal = self.signal_variance * self.eigenvalues
        rank = np.arange(1, len(signal) + 1)
        if self.energy is not None:
            seen = self.energy > 0
            ax.plot(rank[seen], self.energy[seen], ".", color=GREY, alpha=0.6, label="targets, squared: ỹ²")
            ax.plot(rank, signal + self.noise_variance, "--", color=BLACK, lw=1, label="expected: λ²s + σ²")
        above = signal > 0
        ax.plot(rank[above], signal[above], color=COLORS[0], label="signal: λ²s")
        ax.axhline(self.noise_variance, color=COLORS[1], label="noise floor: σ²")
        ax.axvline(
            self.effective_dof,
            color=COLORS[2],
            linestyle=":",
            lw=2,
            label=f"effective degrees of freedom: {self.effective_dof:.1f}",
        )
        ax.set(xscale="log", yscale="log", ylim=self._heights(signal))
        ax.set_xlabel("eigendirection, largest first")
        ax.set_ylabel("variance (units of y squared)")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
        return self

    def _heights(self, signal):
        """Return limits that leave out what is far below the noise floor."""
        seen = signal if self.energy is None else np.concatenate([signal, self.energy])
        largest = max(seen.max(initial=0.0), self.noise_variance) or 1.0
        smallest = 1e-4 * (self.noise_variance or largest)
        return smallest, 5.0 * largest
