"""What every floor may use: named errors and warnings, checks of input, BLAS threads, progress, intervals."""
