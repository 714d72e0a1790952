"""What to say of parameters that ended at a bound."""

import numpy as np

from ..kernels.parts import parameters_at_bounds
from ..support.exceptions import KernelBoundWarning, warn_user

__all__ = ["warn_at_bounds", "warn_at_kernel_bounds", "warn_at_latent_bounds"]


def warn_at_bounds(kernel, solution, bounds, *, are_ours):
    """Warn once, naming every parameter that ended at a bound and what that means.

    The text holds no fitted numbers, so that cross-validation shows it once.

    Parameters
    ----------
    kernel : Kernel or "precomputed"
        The learned kernel.
    solution : Solution
        Its variances.
    bounds : VarianceBounds
        Bounds of both variances.
    are_ours : bool
        Whether the bounds of the kernel are those of ``kernel=None`` rather than the user's.
    """
    stuck = [] if isinstance(kernel, str) else parameters_at_bounds(kernel)
    sentences = _about_inputs(stuck) + _about_parameters(stuck, are_ours) + _about_variances(solution, bounds)
    if sentences:
        warn_user(" ".join(sentences), KernelBoundWarning)


def warn_at_kernel_bounds(kernel, *, are_ours):
    """Warn likewise of the parameters of a kernel alone."""
    stuck = parameters_at_bounds(kernel)
    sentences = _about_inputs(stuck) + _about_parameters(stuck, are_ours)
    if sentences:
        warn_user(" ".join(sentences), KernelBoundWarning)


def warn_at_latent_bounds(task, variables, *, are_ours):
    """Warn likewise of what was learned with another likelihood.

    Parameters
    ----------
    task : LatentTask
        What was learned.
    variables : ndarray
        Its outer variables at the end.
    are_ours : bool
        As in `warn_at_bounds`.
    """
    stuck = [] if task.is_precomputed else parameters_at_bounds(task.kernel_at(task.point(variables).theta))
    sentences = _about_inputs(stuck) + _about_parameters(stuck, are_ours) + _about_others(task, variables)
    if sentences:
        warn_user(" ".join(sentences), KernelBoundWarning)


def _about_others(task, variables):
    """Tell of the signal variance; a parameter of the likelihood at its bound is an answer like any other."""
    if not task.learns_signal:
        return []
    below, above = np.abs(task.bounds[0] - variables[0])
    if min(below, above) >= 1e-6:
        return []
    end = "lower" if below < above else "upper"
    meaning = (
        "the targets hardly depend on the inputs"
        if end == "lower"
        else "classes separate, or noise is absent"
    )
    return [f"The signal variance ended at its {end} bound: as far as the data tell, {meaning}."]


def _is_unused_input(name, end):
    return name.endswith("]") and "length_scale[" in name and end == "upper"


def _about_inputs(stuck):
    names = [name for name, end in stuck if _is_unused_input(name, end)]
    if not names:
        return []
    return [
        f"{', '.join(names)} ended at the upper bound: as far as the data tell, the targets hardly depend on "
        "such an input."
    ]


def _about_parameters(stuck, are_ours):
    named = ", ".join(f"{name} ({end} bound)" for name, end in stuck if not _is_unused_input(name, end))
    if not named:
        return []
    if are_ours:
        return [
            f"The default kernel's {named} ended a factor of 1000 from the spread of the inputs: the data "
            "hardly determine it. Scale the inputs, or pass a kernel with bounds of your own."
        ]
    return [
        f"Learned kernel parameters ended at a bound: {named}. Widen the bounds, or fix the parameter if the "
        "bound is meant."
    ]


def _about_variances(solution, bounds):
    parts = (("WhiteKernel's noise_level", bounds.noise), ("ConstantKernel's constant_value", bounds.signal))
    values = (solution.noise_var, solution.signal_var)
    stuck = [
        f"the {name} ({end} bound)"
        for (name, interval), value in zip(parts, values, strict=True)
        for end in _ends_reached(value, interval)
    ]
    if not stuck:
        return []
    return [f"Tuned variances ended at a bound: {', '.join(stuck)}. Widen the bounds, or fix what is meant."]


def _ends_reached(value, interval):
    """Return which ends of an interval that leaves a choice any of the values lie on."""
    low, high = interval
    slack = 1e-9
    at_low, at_high = (value <= low * (1 + slack)).any(), (value >= high * (1 - slack)).any()
    return [end for end, at in (("lower", low > 0 and at_low), ("upper", at_high)) if at and low < high]
