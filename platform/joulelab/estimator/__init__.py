"""What a program asks of a device and what it costs there; needs no device and no weights.

``estimate("resnet50", device="h100", batch=8)`` answers for one combination and ``matrix`` for
many. The modules that look at tensors import torch, so they are imported only by functions that
trace; everything else is plain arithmetic.
"""

# Imported here and now, so that the function and not the module of that name is found.
from joulelab.estimator.api import estimate, matrix
from joulelab.estimator.question import Cell, Question

__all__ = ["Cell", "Question", "estimate", "matrix"]
