"""What plug-ins must keep to, as tests that their authors run with pytest.

Two lines in a test file do it::

class TestMine(joulelab.testing.WorkloadContract):
workload, knobs = MyWorkload, {"size": 8}
"""

from joulelab.testing.devices import DeviceContract
from joulelab.testing.power_models import PowerModelContract
from joulelab.testing.strategies import StrategyContract
from joulelab.testing.workloads import WorkloadContract

__all__ = ["DeviceContract", "PowerModelContract", "StrategyContract", "WorkloadContract"]
