"""A bench that measures one trial after another keeps its precision."""

from itertools import chain

import pytest

from joulelab import Configuration, OperatingPoint
from joulelab.bench import Bench
from joulelab.core.trial import Trial
from joulelab.devices.simulated import SimulatedDevice, fleet

CLOCKS_MHZ = (1500, 1005, 600, 900, None)


def trial(clock_mhz):
    asked = Configuration.of("llama", {}, OperatingPoint(sm_clock_mhz=clock_mhz))
    return Trial(study="many", name=f"{clock_mhz}", configuration=asked)


@pytest.mark.slow
def test_every_window_of_every_trial_is_read_to_half_a_percent(tmp_path):
    """The ticks of later trials once went unbracketed: windows of 2 s were stated to 4 %."""
    [address] = fleet("h200_sxm", 1, str(tmp_path))

    with Bench(SimulatedDevice.open(address)) as bench:
        records = list(chain.from_iterable(bench.measure(trial(clock)) for clock in CLOCKS_MHZ))

    windows = [window for record in records for window in record.measurement.windows]
    assert len(windows) >= 2 * 3 * len(CLOCKS_MHZ)
    assert max(window.energy_u_j / window.energy_j for window in windows) <= 0.005
