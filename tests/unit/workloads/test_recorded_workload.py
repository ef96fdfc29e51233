"""A program of which only a recording exists runs nowhere else."""

import pytest

from joulelab.errors import ConfigError
from joulelab.workloads.recorded import Recorded, RecordedSettings


@pytest.mark.parametrize("use", [Recorded.prepare, Recorded.cost, lambda w: w.run("run")])
def test_a_recorded_program_says_where_it_runs(use):
    with pytest.raises(ConfigError, match=r"'lbm' .* --device replay --store RECORDING"):
        use(Recorded(RecordedSettings(app="lbm")))
