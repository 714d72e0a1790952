"""Learning continuous kernel parameters: the outer loop around the O(n) inner one.

================ ========================================================================
task             `Task`: what is learned from
objectives       what is minimised, as functions of the kernel's parameters
evaluation       `Evaluation`: an objective at a point, its gradient made where it is asked for
descent          minimisation of an expensive smooth function in a box
levels           from few rows to all of them
latent_task      `LatentTask`: the same for likelihoods that are not normal
latent_objective an approximate evidence as a function of what is learned
latent           learning by an approximate evidence
design           points around the optimum over which predictions are averaged
priors           hyperpriors of the kernel's parameters and the variances
================ ========================================================================
"""
