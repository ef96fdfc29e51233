"""What a program asks of a device, counted from a trace of it; needs no device and no weights.

The modules that look at tensors import torch, so they are imported only by functions that
trace; :mod:`joulelab.estimator.kernels` is plain arithmetic.
"""
