"""From rotated targets to variances, coefficients and their uncertainty, whatever the kernel was.

=============  ==================================================================================
tuning         global minimisation of smooth functions of one variable, many at once
variances      bounds and priors of the two variances
solution       `tune`, `solve`: the variances of every output, and the coefficients that follow
uncertainty    standard errors and profile-likelihood intervals of the variances
averaging      predictions averaged over the variances
mean_summary   coefficients of mean functions with standard errors and tests
jackknife      intervals from leave-one-out models
variance_form  the variance of predictions as a quadratic form
=============  ==================================================================================
"""
