"""What the small networks that are trained on this machine have in common."""

from typing import Literal

from joulelab.workloads.knobs import require_choice

Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]
Weights = Literal["trained"] | None


def check_weights(weights: object) -> None:
    """Refuse anything but trained and, for random ones, ``None``.

    Raises:
        UnknownNameError: If it is anything else.
    """
    if weights is not None:
        require_choice("weights", weights, ("trained",))
