"""What plug-ins must keep to, as tests that their authors run with pytest.

Two lines in a test file do it::

class TestMine(joulelab.testing.WorkloadContract):
workload, knobs = MyWorkload, {"size": 8}
"""

from joulelab.testing.choosing import PowerModelContract, StrategyContract
from joulelab.testing.measured import DeviceContract, WorkloadContract

__all__ = ["DeviceContract", "PowerModelContract", "StrategyContract", "WorkloadContract"]
