"""Linear algebra of the kernel matrix: the only floor that factorises.

It knows rows (weights, mean functions), matrices and targets as columns of numbers. It knows nothing of
kernels' parameters, variances or estimators.

==============  =============================================================================
rows            `Rows`: weights and unpenalised mean functions
quadratic       quadratic forms and roots of small symmetric matrices
reflectors      orthonormal vectors that stay in the reflectors of a QR decomposition
rotated         `Rotated`: what a decomposition shows of the targets, numbers only
indefinite      `Repair`: negative eigenvalues replaced
projection      `Projection`: the geometry of new points, and its derivatives
spectrum        `Spectrum`: eigenvalues and eigenvectors on the rows
moments         `FeatureSpectrum`: the same from Phi'Phi and Phi'Y, without vectors on the rows
resolvent       `Resolvent`: (K + gI)^-1 at a single g
stack           the evidence of several small matrices at many g
factors         low-rank factors by pivots or given landmarks
greedy          low-rank factors by what explains the targets
factor_terms    the evidence and its derivatives from a factor
sensitivity     `Sensitivity`: the derivative of a number by K
curved          K beside the curvature of a likelihood: (W^-1 + K)^-1, from K or from a factor
softmax_curved  the same where the classes of a softmax are coupled
constants       unpenalised constants beside them
active          few functions with a prior variance each, and what they leave for others
dictionary      kernel functions as columns on the rows
unpenalised     uncertainty of least squares coefficients
==============  =============================================================================
"""
