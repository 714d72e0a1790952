"""Where a descent in all of the user's parameters, from the user's own values, would end.

The other objectives of learning tune the variances along with every step and never see a constant or a noise
level as the user wrote it. That is faster, and may lead into another valley. On few rows the descent that
scikit-learn would make is followed too, so that its end is a candidate: L-BFGS-B on the log evidence by all
parameters of the kernel as it was given.
"""

import numpy as np
from scipy.optimize import minimize

from ..kernels.attached import Pairs, attach
from ..kernels.parts import split_kernel
from ..linalg.resolvent import Resolvent
from ..support.exceptions import IndefiniteKernelError

__all__ = ["MAX_ROWS", "follow_user_path"]

# Rows up to which it is followed.
MAX_ROWS = 1000
# What GaussianProcessRegressor adds to the diagonal of K.
_JITTER = 1e-10


def follow_user_path(task, leads_elsewhere, is_explored):
    """Return the end as (theta of the core kernel, noise ratio), and the number of factorisations.

    The end is None where the path is not followed: on many rows or weighted ones, for several outputs or
    other criteria, where all rows were explored and one length is all that is learned, or without a noise
    level to start from; and where it comes to a point of which leads_elsewhere(theta, noise ratio) says that
    its end is known.
    """
    if not _is_followed(task) or (is_explored and task.kernel.n_dims == 1):
        return None, 0
    objective = _GivenObjective(task)

    def at(theta):
        parts = split_kernel(task.given.clone_with_theta(theta))
        return np.clip(parts.core.theta, *task.kernel.bounds.T), parts.noise_start / (
            parts.signal_start or 1.0
        )

    def stop_where_known(intermediate_result):
        if not leads_elsewhere(*at(intermediate_result.x)):
            raise StopIteration

    settings = {"method": "L-BFGS-B", "jac": True, "bounds": task.given.bounds}
    result = minimize(objective, task.given.theta, callback=stop_where_known, **settings)
    end = at(result.x)
    return end if leads_elsewhere(*end) else None, objective.n_calls


def _is_followed(task):
    if task.given is None or task.data.weight is not None or not task.is_single:
        return False
    return len(task) <= MAX_ROWS and bool(split_kernel(task.given).noise_start)


class _GivenObjective:
    """-log evidence by all parameters of the given kernel, noise included, with its gradient."""

    def __init__(self, task):
        rows = task.data.rows
        Z, scale, _ = rows.standardise(task.data.Y)
        self.rows, self.y, self.n_calls = rows, Z[:, 0] * scale[0], 0
        self._kernel = attach(task.given, task.data.X)

    @np.errstate(over="ignore", invalid="ignore")  # a kernel beyond all numbers has no evidence
    def __call__(self, theta):
        self.n_calls += 1
        values = self._kernel.at(theta)
        if not np.isfinite(values.K.sum()):
            return np.inf, np.zeros_like(theta)
        try:
            resolvent = Resolvent.from_gram(values.K.matrix(len(self.y)), self.rows, _JITTER)
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(theta)
        dual = resolvent.apply(self.y)
        value = 0.5 * (self.y @ dual + resolvent.log_det)
        G = self.rows.unweighted_sensitivity(resolvent.sensitivity(dual, 1.0))
        return value, 0.5 * values.contract(Pairs.of_triangle(G))
