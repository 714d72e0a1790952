"""Derivatives of quadratic forms in the geometry of new points, carried back to kernel values and functions.

A variance is a function of `Spectrum.project`'s prior, cross and leverage. Given its derivatives by these
three, what follows are its derivatives by k*, the kernel with the rows (or the features), and by f*, the mean
functions.
"""

__all__ = ["pull_back", "pull_back_features"]


def pull_back(spectrum, K_cross, basis, by_prior, by_cross, by_leverage):
    """Return the derivatives by K_cross (n_new, n) and by basis (n_new, functions), None without functions.

    Parameters
    ----------
    spectrum : Spectrum
        Of a kernel matrix.
    K_cross, basis
        As in `Spectrum.project`.
    by_prior, by_leverage : ndarray of shape (n_new,)
        Derivatives by prior and leverage.
    by_cross : ndarray of shape (r, n_new)
        Derivatives by cross.

    Notes
    -----
    With z = R^-T f*, cross = U'(k - KQ z), prior = k** - 2 z'Q'k + z'Q'KQ z and leverage = z'z.
    """
    rows = spectrum.rows
    z = None if basis is None else rows.R_inv.T @ basis.T
    k = rows.sqrt_weight * K_cross.T
    if spectrum.repair is not None:
        raw = spectrum.U.T @ (k if z is None else k - spectrum.KQ @ z)
        by_cross = spectrum.repair.signs * by_cross + 2.0 * by_prior * spectrum.repair.added * raw
    by_k = spectrum.U @ by_cross
    if z is None:
        return (rows.sqrt_weight * by_k).T, None
    by_z = 2.0 * by_prior * (rows.Q.T @ (spectrum.KQ @ z - k))
    by_z += 2.0 * by_leverage * z - spectrum.KQ.T @ by_k
    by_k -= 2.0 * by_prior * (rows.Q @ z)
    return (rows.sqrt_weight * by_k).T, (rows.R_inv @ by_z).T


def pull_back_features(spectrum, features, basis, by_prior, by_cross, by_leverage):
    """Return the derivatives by features (n_new, r) and by basis, as `pull_back` does by kernel values.

    With psi = phi - Phi'Q z, cross = U'Phi psi and prior = k** - |phi|^2 + |psi|^2.
    """
    by_psi = spectrum.loadings.T @ by_cross
    if basis is None:
        return by_psi.T, None
    z = spectrum.rows.R_inv.T @ basis.T
    shift = spectrum.QPhi.T @ z  # phi - psi
    by_psi = by_psi + 2.0 * by_prior * (features.T - shift)
    by_z = 2.0 * by_leverage * z - spectrum.QPhi @ by_psi
    return (by_psi - 2.0 * by_prior * features.T).T, (spectrum.rows.R_inv @ by_z).T
