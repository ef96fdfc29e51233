"""What another SM clock changes of what a kernel takes above static power."""

from dataclasses import dataclass

import numpy as np

from joulelab.hardware import GpuSpec

_MEMORY_SHARE = 0.6
"""Most of a kernel's energy above static that moving bytes of the memory may take; chosen: what a
launch moves is partly found in caches, where it costs less."""


@dataclass(frozen=True, slots=True)
class ClockLaw:
    """Voltage and memory of a GPU; nothing is changed where it is not known."""

    spec: GpuSpec | None

    def factor(self, clock_mhz: float | None, was_mhz: float | None) -> float:
        """Return what energy is at one clock over another where time follows the clock.

        That is voltage squared; 1 where a clock is not known.
        """
        if self.spec is None or clock_mhz is None or was_mhz is None:
            return 1.0
        low, high = min(self.spec.sm_clocks_mhz), max(self.spec.sm_clocks_mhz)
        there, here = (
            self.spec.voltage.at(float(np.clip(mhz, low, high))) for mhz in (clock_mhz, was_mhz)
        )
        return (there / here) ** 2

    def energy_j(
        self,
        read_j: float,
        clock_mhz: float | None,
        was_mhz: float | None,
        *,
        memory_b: float,
        stretch: float,
    ) -> float:
        """Return what a launch takes at a clock, in joules, from what was read at another.

        The memory takes as much for a byte at every clock. The rest draws in proportion to the
        clock and to voltage squared for as long as a launch takes.

        Args:
            read_j: Energy of a launch at ``was_mhz``.
            clock_mhz: The clock that is asked for.
            was_mhz: The clock at which it was read.
            memory_b: Bytes that a launch moves.
            stretch: Its time in the program over that of the reading; what is beyond the ratio of
                the clocks it waits, which is no matter of the clock.
        """
        if self.spec is None or not (clock_mhz and was_mhz):
            return read_j
        memory_j = min(self.spec.power.dram_j_per_b * memory_b, _MEMORY_SHARE * read_j)
        longest = was_mhz / clock_mhz
        longer = float(np.clip(stretch, min(1.0, longest), max(1.0, longest)))
        core = self.factor(clock_mhz, was_mhz) * longer / longest
        return memory_j + (read_j - memory_j) * core
