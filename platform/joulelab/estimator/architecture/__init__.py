"""Where the energy of a group goes, event by event, for each way of executing."""

from joulelab.estimator.architecture.base import RawEvents, kappa, partitioned, scaled, summed
from joulelab.estimator.architecture.work import GroupWork
from joulelab.estimator.estimate import Event
from joulelab.hardware.processor import Processor
from joulelab.registry import Registry

__all__ = ["ARCHITECTURES", "GroupWork", "events", "kappa", "scaled", "summed"]

ARCHITECTURES: Registry[RawEvents] = Registry(
    "architecture family",
    {
        "cpu": "joulelab.estimator.architecture.cpu:raw_events",
        "gpu": "joulelab.estimator.architecture.gpu:raw_events",
        "tpu": "joulelab.estimator.architecture.tpu:raw_events",
        "kpu": "joulelab.estimator.architecture.kpu:raw_events",
    },
)


def events(work: GroupWork, processor: Processor) -> tuple[Event, ...]:
    """Return the events of ``work``: those of each component sum to that component's energy."""
    return partitioned(ARCHITECTURES[processor.family](work, processor), work.energy)
