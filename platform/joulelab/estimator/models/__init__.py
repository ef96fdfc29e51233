"""From a name to a traced model; modules of sources import torch, when needed."""

from joulelab.estimator.models.sources import find_model, model_names, trace_model
from joulelab.estimator.models.tensor_parallelism import tensor_parallel

__all__ = ["find_model", "model_names", "tensor_parallel", "trace_model"]
