"""From rotated targets to variances, coefficients and their uncertainty, whatever the kernel was.

============ ====================================================================================
tuning       global minimisation of smooth functions of one variable, many at once
variances    bounds and priors of the two variances
solution     `tune`, `solve`: the variances of every output, and the coefficients that follow
covariances  minimisation over two covariance matrices, of signals and of noise
correlated   covariances between outputs from one decomposition: independent outputs in another basis
entries      the same where outputs have holes, from one dense system of the observed entries
uncertainty  standard errors and profile-likelihood intervals of the variances
student_mixture  mixtures of Student-t distributions
averaging    predictions averaged over the variances
mean_summary coefficients of mean functions with standard errors and tests
jackknife    intervals from leave-one-out models
variance_form  the variance of predictions as a quadratic form
observations targets under any likelihood, as functions of latent values
modes        the mode of latent values by Newton's method
approximate  normal posteriors of latent functions, their evidence and its gradient
sparse       relevance vectors: one prior variance for each function
candidates   the same among more functions than are kept
sparse_classes  the same for two classes, on working targets
absolute     least absolute deviations as a linear program
============ ====================================================================================
"""
