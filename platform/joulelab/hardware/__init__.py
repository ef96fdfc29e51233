"""What GPUs are: a catalogue of data files with a source for every figure."""

from joulelab.hardware.catalogue import GPUS, spec_for
from joulelab.hardware.spec import GpuSpec

__all__ = ["GPUS", "GpuSpec", "spec_for"]
