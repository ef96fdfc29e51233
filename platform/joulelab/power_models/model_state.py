"""What every member keeps besides what it learned, as a state."""

from joulelab.power_models.calibration import Calibration
from joulelab.power_models.correction import Correction, Corrections
from joulelab.power_models.domain import TrainingDomain
from joulelab.power_models.state import State

_CALIBRATION = ("group", "pair", "log_ratio", "log_error")


def shared_state(
    domain: TrainingDomain,
    corrections: Corrections,
    calibration: Calibration | None,
    data_hash: str,
) -> State:
    """Return the domain, the corrections, the calibration and the data's name as a state."""
    values = {
        "data_hash": data_hash,
        "ranges": {name: list(ends) for name, ends in domain.ranges.items()},
        "partly_unread": list(domain.partly_unread),
        "gpus": list(domain.gpus),
        "pairs": [
            [*pair, each.offset, each.slope, list(each.anchors), list(each.pulls)]
            for pair, each in corrections.pairs.items()
        ],
        "boards": dict(corrections.boards),
    }
    if calibration is None:
        return State(values=values)
    arrays = {f"calibration.{name}": getattr(calibration, name) for name in _CALIBRATION}
    if calibration.anchored_error is not None:
        arrays["calibration.anchored_error"] = calibration.anchored_error
    return State(values=values, arrays=arrays)


def shared_of(state: State) -> tuple[TrainingDomain, Corrections, Calibration | None, str]:
    """Return what :func:`shared_state` was given."""
    values, arrays = state.values, state.arrays
    domain = TrainingDomain(
        ranges={name: (low, high) for name, (low, high) in values["ranges"].items()},
        partly_unread=tuple(values["partly_unread"]),
        gpus=tuple(values["gpus"]),
    )
    pairs = {
        (gpu, application): Correction(
            offset=offset, slope=slope, anchors=tuple(anchors), pulls=tuple(pulls)
        )
        for gpu, application, offset, slope, anchors, pulls in values["pairs"]
    }
    corrections = Corrections(pairs=pairs, boards=values["boards"])
    calibration = None
    if "calibration.group" in arrays:
        columns = {name: arrays[f"calibration.{name}"] for name in _CALIBRATION}
        calibration = Calibration(
            **columns, anchored_error=arrays.get("calibration.anchored_error")
        )
    return domain, corrections, calibration, values["data_hash"]
