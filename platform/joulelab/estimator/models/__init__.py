"""From a name to a traced model."""

from joulelab.estimator.models.sources import find_model, model_names
from joulelab.estimator.models.tensor_parallelism import tensor_parallel
from joulelab.estimator.models.tracing import trace_model

__all__ = ["find_model", "model_names", "tensor_parallel", "trace_model"]
