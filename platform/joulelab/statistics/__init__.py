"""The tests that energy comparisons need; scipy and statsmodels compute them.

* :mod:`.paired`: how much does a clock save, run against run? Paired t, Wilcoxon, Holm.
* :mod:`.equivalence`: is it no slower? Two one-sided tests against a margin.
* :mod:`.ratios`: intervals of ratios (saving, EDP) by the BCa bootstrap, blocked by board.
* :mod:`.policies`: which of several policies differ over many workloads? Friedman, Nemenyi.
* :mod:`.repeats`: how many repeats show a change of x %, or show that there is none?
* :mod:`.steady`: from when on was a trace steady? MSER-5, and the criteria of the warm-up.

Times, energies and powers are compared as logarithms of ratios: an effect of a clock multiplies,
saving and loss are symmetric, and a board's gain cancels.
"""
