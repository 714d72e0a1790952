"""Gaussian process regression on landmarks, from chunks of rows."""

from functools import partial
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..criteria import CRITERIA
from ..decomposition.certificate import evidence_bounds
from ..inference.solution import warn_of_unknown_spread, warn_of_vanished_noise
from ..inference.tuning import TuningResult
from ..kernels.columns import resolve_columns
from ..kernels.parts import split_kernel
from ..support.atomic import all_or_nothing
from ..support.progress import Progress
from ..support.shapes import as_columns, like_targets, per_output
from ..support.types import Criterion, FloatArray, PerOutput, RandomState, Selection
from ..support.validation import check_weights, with_checked_parameters
from . import blocks
from .features import Chunk, Features, checked_landmarks, sample_size, unit_kernel
from .learning import Survey, learn_features, total_of_chunk
from .model import Model, State
from .statistics import FeatureStatistics

__all__ = ["StreamingSpectralRegressor"]


class StreamingSpectralRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression for rows that do not fit in memory.

    The kernel is replaced by its projection on landmarks (Nystroem). Then everything that tuning and
    prediction need are sums over rows: chunks come one by one through `partial_fit`, or `fit` takes all rows
    at once, also as a dask array or dataframe, and all ways give the same model for the same landmarks. Noise
    and signal variance are tuned from the sums, for each output separately, at O(r) per trial value.

    Parameters
    ----------
    kernel : kernel of :mod:`sklearn.gaussian_process.kernels`, default=None
        Covariance function. None means RBF, at first with a length of sqrt(sum of the inputs' variances). A
        constant factor and an added ``WhiteKernel`` set bounds for the
        variances, as in `SpectralGPRegressor`.
    landmarks : int or array-like of shape (n_landmarks, n_features), default=300
        Inputs whose kernel functions span the model. A number has at most that many chosen: by `fit` from a
        random sample of max(1000, 10 landmarks) rows (of a dask collection, from some of its blocks), by
        `partial_fit` from the first so many rows, which are kept until then. Fewer are used where they
        already span the kernel to rounding.
    criterion : {"evidence", "gcv", "posterior"}, default="evidence"
        What the variances optimise, as in `SpectralGPRegressor`. "evidence" means its certified lower bound,
        see Notes. Leave-one-out criteria need the rows.
    fit_intercept : bool, default=True
        Whether to include an unpenalised constant.
    optimizer : "default" or None, default="default"
        How the kernel's free parameters are learned. "default" maximises the certified lower bound of the
        evidence, whatever the `criterion`: `fit` on a sample first and from there on all rows, by two passes
        over them for each of at most 30 evaluations; `partial_fit` once, on the first rows, which are kept
        until there are enough of them, and the kernel stays as it is for all rows that follow. None keeps the
        parameters.
    random_state : int, RandomState instance or None, default=None
        Draws the sample for the landmarks and the candidates of ``selection="greedy"``; None always draws
        the same ones.
    selection : {"pivots", "greedy"}, default="pivots"
        How landmarks are chosen. "pivots": where the kernel varies most (pivoted Cholesky). "greedy": where
        they explain the targets best, among random candidates, until the fit is within 0.5 % of its optimum
        (Smola & Schoelkopf, Algorithm 1.1); usually fewer.
    verbose : int, default=0
        Whether to print the rows done and the rank as chunks come in; for dask collections about ten times.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, of unit variance, without noise.
    landmarks_ : ndarray of shape (rank_, n_features)
        Landmarks in use.
    rank_ : int
        Their number.
    statistics_ : FeatureStatistics
        The sums.
    n_samples_seen_ : int
        Rows of positive weight so far.
    noise_variance_, signal_variance_ : float or ndarray of shape (n_outputs,)
        Tuned variances.
    log_evidence_ : float or ndarray of shape (n_outputs,)
        Log evidence of the projected kernel, with an intercept the restricted one as in
        `SpectralKernelRidge`.
    evidence_bounds_ : tuple of two floats or ndarrays of shape (n_outputs,)
        Bounds on the log evidence of the kernel itself, at the same variances. With ``criterion="evidence"``
        and a learned kernel the lower one is what was maximised.
    criterion_value_ : float or ndarray of shape (n_outputs,)
        Value of `criterion`, greater is better.
    effective_dof_ : float or ndarray of shape (n_outputs,)
        Effective degrees of freedom, intercept included.
    coef_ : ndarray of shape (rank_,) or (rank_, n_outputs)
        Coefficients of the features L^-1 k(landmarks, x).
    intercept_ : float or ndarray of shape (n_outputs,)
        The constant; 0 with ``fit_intercept=False``.
    tuning_ : tuple of TuningResult
        Status of each output.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralGPRegressor : For rows in memory; ``method="low_rank"`` certifies its factor.
    FeatureStatistics : The sums.

    Notes
    -----
    A chunk costs O(n r^2). Tuning costs O(r^3), once, when a prediction or attribute is asked for after new
    rows. Away from the landmarks the standard deviation returns to the prior's, since what the projection
    misses of the kernel's variance is added back. Sums of squares are exact to about 2e-15, so that noise
    below about 1e-7 of the size of y, or 4e-8 sqrt(`rank_`) of the signal's standard deviation, is lost in
    rounding; a little more beyond 65,000 rows. `tuning_` then says "noise_free" or, with a warning,
    "resolution".

    With what the landmarks miss of the trace of the kernel matrix, tau, the log evidence of the kernel itself
    is at least that of the projection less n/2 log(1 + tau/(n g)), g the ratio of the variances. This lower
    bound is maximised over the variances and the kernel's parameters: the evidence of the projection alone
    takes all that the landmarks miss for noise. With ``optimizer=None`` the projection is the model, and the
    variances maximise its own evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import StreamingSpectralRegressor
    >>> rng = np.random.default_rng(0)
    >>> model = StreamingSpectralRegressor(landmarks=np.linspace(-3, 3, 20)[:, None])
    >>> for _ in range(10):
    ...     X = rng.uniform(-3, 3, (500, 1))
    ...     model = model.partial_fit(X, np.sin(X[:, 0]) + rng.normal(0, 0.1, 500))
    >>> model.n_samples_seen_, round(float(np.sqrt(model.noise_variance_)), 2)
    (5000, 0.1)
    """

    _parameter_constraints: dict = {
        "kernel": [Kernel, None],
        "landmarks": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "criterion": [StrOptions(set(CRITERIA))],
        "fit_intercept": ["boolean"],
        "optimizer": [StrOptions({"default"}), None],
        "random_state": ["random_state"],
        "selection": [StrOptions({"pivots", "greedy"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        landmarks: int | ArrayLike = 300,
        criterion: Criterion = "evidence",
        fit_intercept: bool = True,
        optimizer: Literal["default"] | None = "default",
        random_state: RandomState = None,
        selection: Selection = "pivots",
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.landmarks = landmarks
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.optimizer = optimizer
        self.random_state = random_state
        self.selection = selection
        self.verbose = verbose

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget what was seen, choose landmarks among all rows, and sum over them.

        Parameters
        ----------
        X : array-like, dask array or dask dataframe of shape (n_samples, n_features)
            Training inputs. Blocks of a dask collection are summed where they are, on the running
            ``distributed.Client`` or in threads.
        y : array-like, dask array or series of shape (n_samples,) or (n_samples, n_outputs)
            Targets, in blocks like those of X.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Relative precisions, as in `SpectralGPRegressor`; 0 leaves a row out.

        Returns
        -------
        self : StreamingSpectralRegressor
        """
        self._check_criterion()
        if y is None:
            raise ValueError("StreamingSpectralRegressor requires y to be passed, but the target y is None.")
        if blocks.is_dask(X):
            return self._fit_blocks(blocks.as_blocks(X, y, sample_weight), X, y)
        chunk, y_ndim = self._validated(X, y, sample_weight, reset=True)
        features = self._learn(total_of_chunk(chunk)) if self._learns else self._choose(self._sample(chunk))
        state = State(y_ndim, features, FeatureStatistics.nothing(features.rank, chunk.Y.shape[1]))
        return self._adopt(state.with_rows(chunk, self._report), tune=True)

    @with_checked_parameters
    @all_or_nothing
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a chunk of rows; a chunk that is refused leaves everything as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            More inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        self : StreamingSpectralRegressor
        """
        self._check_criterion()
        if blocks.is_dask(X):
            raise ValueError("partial_fit takes chunks in memory. Pass a dask collection to fit.")
        state = getattr(self, "_state", None)
        chunk, y_ndim = self._validated(X, y, sample_weight, reset=state is None, may_be_absent=True)
        if state is None:
            given = self._checked_landmarks()  # refuses bad ones at once
            features = self._choose(chunk) if np.ndim(given) and not self._learns else None
            rank = 0 if features is None else features.rank
            state = State(y_ndim, features, FeatureStatistics.nothing(rank, chunk.Y.shape[1]))
        elif chunk.Y.shape[1] != state.n_outputs:
            raise ValueError(
                f"y has {chunk.Y.shape[1]} output(s), but the chunks before had {state.n_outputs}. Pass the "
                "same targets in every chunk."
            )
        if state.features is None:
            return self._wait_or_start(state.waiting_with(chunk))
        return self._adopt(state.with_rows(chunk, self._report))

    def predict(self, X: ArrayLike, return_std: bool = False, include_noise: bool = True) -> FloatArray | Any:
        """Predict the mean and, on request, the standard deviation.

        Parameters
        ----------
        X : array-like, dask array or dask dataframe of shape (n_new, n_features)
            New inputs. For a dask collection the results are dask arrays, not computed yet.
        return_std : bool, default=False
            Whether to return standard deviations too.
        include_noise : bool, default=True
            Whether they are of new observations or of the latent function.

        Returns
        -------
        mean : ndarray or dask array of shape (n_new,) or (n_new, n_outputs)
        std : ndarray or dask array of shape (n_new,) or (n_new, n_outputs)
            Only with `return_std`.
        """
        check_is_fitted(self)
        model = self._model
        if blocks.is_dask(X):
            blocks.check_columns(self, X, reset=False)
            return blocks.lazily(model, X, return_std, include_noise)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        mean = model.mean(X)
        return (mean, model.std(X, include_noise)) if return_std else mean

    @property
    def statistics_(self) -> FeatureStatistics:
        return self._settled.statistics

    @property
    def n_samples_seen_(self) -> int:
        check_is_fitted(self)
        return self._state.n_rows

    @property
    def kernel_(self) -> Kernel:
        return self._settled.features.kernel

    @property
    def landmarks_(self) -> FloatArray:
        return self._settled.features.feature_map.landmarks

    @property
    def rank_(self) -> int:
        return self._settled.features.rank

    @property
    def noise_variance_(self) -> PerOutput:
        return self._per_output(self._tuned.noise_var)

    @property
    def signal_variance_(self) -> PerOutput:
        return self._per_output(self._tuned.signal_var)

    @property
    def log_evidence_(self) -> PerOutput:
        return self._per_output(self._tuned.log_evidence)

    @property
    def evidence_bounds_(self) -> tuple[PerOutput, PerOutput]:
        tuned, tau = self._tuned, self._settled.statistics.missed
        lower, upper = (self._per_output(bound) for bound in evidence_bounds(tuned, tau))
        return lower, upper

    @property
    def criterion_value_(self) -> PerOutput:
        return self._per_output([t.value for t in self._tuned.tuning])

    @property
    def effective_dof_(self) -> PerOutput:
        return self._per_output(self._tuned.effective_dof)

    @property
    def coef_(self) -> FloatArray:
        check_is_fitted(self)
        return like_targets(self._model.coef, self._state.y_ndim)

    @property
    def intercept_(self) -> PerOutput:
        return self._per_output(self._model.intercept)

    @property
    def tuning_(self) -> tuple[TuningResult, ...]:
        return self._tuned.tuning

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_state")

    def _check_criterion(self):
        if CRITERIA[self.criterion].needs_rows:
            possible = sorted(name for name, c in CRITERIA.items() if not c.needs_rows)
            raise ValueError(
                f"criterion={self.criterion!r} leaves rows out one by one, but a stream does not keep them. "
                f"Use one of {possible}."
            )

    def _validated(self, X, y, sample_weight, reset, may_be_absent=False):
        """Return the `Chunk` and the dimension of y."""
        X, y = validate_data(self, X, y, reset=reset, multi_output=True, y_numeric=True, dtype=np.float64)
        absent = may_be_absent and sample_weight is not None and not np.any(sample_weight)
        weight = np.zeros(len(X)) if absent else check_weights(sample_weight, X)
        return Chunk.present(X, as_columns(y), weight), y.ndim

    @property
    def _learns(self):
        """Whether the kernel has parameters to learn."""
        if self.optimizer is None:
            return False
        return self.kernel is None or split_kernel(clone(self.kernel)).core.n_dims > 0

    @property
    def _sample_size(self):
        return sample_size(self.landmarks, self._learns)

    @property
    def _seed(self):
        return 0 if self.random_state is None else check_random_state(self.random_state).randint(2**31)

    def _checked_landmarks(self):
        return checked_landmarks(self.landmarks, self.n_features_in_)

    def _sample(self, chunk):
        """Return the rows among which landmarks are chosen, in their order."""
        if len(chunk) <= self._sample_size:
            return chunk
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        return chunk[np.sort(rng.permutation(len(chunk))[: self._sample_size])]

    def _sample_blocks(self, all_blocks):
        """Return a sample of rows of some blocks; none where landmarks are given."""
        if np.ndim(self.landmarks):
            return Chunk(np.empty((0, self.n_features_in_)), np.empty((0, 1)))
        return blocks.sample(all_blocks, self._sample_size, self._seed)

    def _choose(self, sample, start=None):
        """Return features of the kernel as it is, with landmarks from a sample."""
        landmarks = self._checked_landmarks()
        start = self._start(sample, landmarks) if start is None else start
        return Features.choose(
            sample, start, landmarks, self.selection, self.fit_intercept, self.random_state
        )

    def _start(self, sample, landmarks):
        """Return the given kernel of unit variance, columns by position, and the bounds of the variances."""
        names, kernel = getattr(self, "feature_names_in_", None), self.kernel
        if kernel is not None and names is not None:
            kernel = resolve_columns(kernel, names)
        return unit_kernel(kernel, sample, landmarks)

    def _learn(self, total):
        """Return features of a kernel learned from all rows, which are known by sums over them."""
        survey = total(partial(Survey.of, size=self._sample_size, seed=self._seed))
        landmarks, sample = self._checked_landmarks(), survey.sample
        start = self._start(sample, landmarks)
        if not survey.statistics.target_scale(self.fit_intercept)[1].any() or start[1].signal[1] == 0:
            return self._choose(sample)  # no signal to learn from
        progress = Progress(type(self).__name__, self.verbose)
        progress.line(
            f"ahead: kernel learned on {len(sample)} of {survey.statistics.n_rows} rows, then on all of them"
        )
        report = progress.step if self.verbose else None
        features = learn_features(total, survey, start, landmarks, self.fit_intercept, report)
        if self.selection == "pivots":
            return features
        return self._choose(sample, (features.kernel, features.bounds))

    def _wait_or_start(self, state):
        """Keep rows until there are enough to learn and choose landmarks from the first of them."""
        size = self._sample_size
        if state.n_rows < size:
            self._report(state.n_rows, 0)
            return self._adopt(state)
        features = self._features_of_first(state.waiting[:size])
        return self._adopt(state.started(features, self._report))

    def _features_of_first(self, chunk):
        """Return the features that the first rows of a stream suggest; they stay for all that follow."""
        if not self._learns:
            return self._choose(chunk)
        features = self._learn(total_of_chunk(chunk))
        progress = Progress(type(self).__name__, self.verbose)
        progress.line(f"kernel learned on the first {len(chunk)} rows, kept from here on: {features.kernel}")
        return features

    def _fit_blocks(self, all_blocks, X, y):
        """Fit blocks of a dask collection: landmarks from some of them, sums over all, as a tree."""
        blocks.check_columns(self, X, reset=True)
        if self._learns:
            features = self._learn(blocks.total_of_blocks(all_blocks))
        else:
            features = self._choose(self._sample_blocks(all_blocks))
        statistics = blocks.total(all_blocks, features, self._report if self.verbose else None)
        if not statistics.n_rows:
            raise ValueError("There are no rows of positive weight; at least one is needed.")
        return self._adopt(State(np.ndim(y), features, statistics), tune=True)

    def _adopt(self, state, tune=False):
        """Take over a state; what was derived from the one before is forgotten."""
        self._state = state
        self._cache = {}
        if tune:
            self._model  # noqa: B018 - so that fit raises what tuning raises
        return self

    @property
    def _settled(self):
        """The state with landmarks: of the rows so far, where more of them are awaited."""
        check_is_fitted(self)
        if self._state.features is not None:
            return self._state
        if "settled" not in self._cache:
            waiting = self._state.waiting
            self._cache["settled"] = self._state.started(self._features_of_first(waiting))
        return self._cache["settled"]

    @property
    def _model(self):
        if "model" not in self._cache:
            state = self._settled
            criterion = CRITERIA[self.criterion]
            by_bound = self.optimizer is not None
            model = Model.make(state, criterion, self.fit_intercept, by_bound)
            warn_of_vanished_noise(model.tuned, criterion)
            warn_of_unknown_spread(model.tuned)
            self._cache["model"] = model
        return self._cache["model"]

    @property
    def _tuned(self):
        check_is_fitted(self)
        return self._model.tuned

    def _per_output(self, values):
        return per_output(values, self._state.y_ndim)

    def _report(self, n_rows, rank):
        progress = Progress(type(self).__name__, self.verbose)
        progress.line(f"rows {n_rows}, rank {rank or 'not chosen yet'}")
