"""What processors are: a catalogue of data files with a source for every figure.

GPUs have all that a simulated board needs; :mod:`joulelab.hardware.processors` adds CPUs, TPUs and
KPUs to them, in the form that the estimator works on.
"""

from joulelab.hardware.catalogue import GPUS, spec_for
from joulelab.hardware.spec import GpuSpec

__all__ = ["GPUS", "GpuSpec", "spec_for"]
