"""Stand-ins for ``nvidia-smi`` and ``dcgmi`` that print what the real ones were seen to print."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from joulelab.core.device import Activity
from joulelab.devices.base import ActivityProbe
from joulelab.errors import MeasurementError

_SMI = """
import json, sys, time
from pathlib import Path

here = Path(__file__).parent
arguments = sys.argv[1:]

def state():
    return json.loads((here / "smi.json").read_text())

def option(name):
    return next((a.partition("=")[2] for a in arguments if a.startswith(name + "=")), None)

def after(name):
    return arguments[arguments.index(name) + 1] if name in arguments else None

def fail(code, text):
    print(text)
    sys.exit(code)

def rows():
    known = state()
    gpus = [g for g in known["gpus"] if after("-i") in (None, g["uuid"])]
    if not gpus:
        fail(6, "No devices were found")
    names = option("--query-gpu").split(",")
    for name in names:
        if name in known["unknown"]:
            fail(2, f'Field "{name}" is not a valid field to query.' + chr(10))
    for gpu in gpus:
        print(", ".join(gpu.get(name, "[N/A]") for name in names), flush=True)

if state()["exit"]:
    fail(*state()["exit"])
if option("--query-compute-apps"):
    print(state()["processes"])
elif option("--query-supported-clocks"):
    print(state()["clocks"])
elif option("--query-gpu"):
    while True:
        rows()
        if after("-lms") is None or state()["ends"]:
            break
        if state()["silent"]:
            time.sleep(60)
        time.sleep(int(after("-lms")) / 1000)
else:
    with open(here / "calls", "a") as log:
        log.write(" ".join(arguments) + chr(10))
    if state()["refuses"]:
        fail(*state()["refuses"])
    print("All done.")
"""

_DCGMI = """
import json, sys, time
from pathlib import Path

here = Path(__file__).parent
state = json.loads((here / "dcgm.json").read_text())
if state["fails"]:
    print(state["fails"][1])
    sys.exit(state["fails"][0])
if sys.argv[1] == "discovery":
    print(state["discovery"])
    sys.exit(0)
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
fields = options["-e"].split(",")
print("#Entity   " + "   ".join("TAG" + f for f in fields))
print("ID")
row = 0
while "-c" not in options or row < int(options["-c"]):
    values = [v[min(row, len(v) - 1)] for v in (state["fields"].get(f, ["N/A"]) for f in fields)]
    print(f"GPU {options['-i']}     " + "        ".join(values), flush=True)
    row += 1
    time.sleep(int(options["-d"]) / 1000)
"""

H200_SMI = {
    "uuid": "GPU-32d38ad4",
    "name": "NVIDIA H200",
    "pci.bus_id": "00000000:00:06.0",
    "driver_version": "580.159.04",
    "vbios_version": "96.00.A5.00.1A",
    "persistence_mode": "Enabled",
    "mig.mode.current": "Disabled",
    "ecc.mode.current": "Enabled",
    "power.draw.instant": "663.05",
    "power.draw.average": "693.35",
    "power.draw": "693.35",
    "enforced.power.limit": "700.00",
    "power.default_limit": "700.00",
    "power.min_limit": "200.00",
    "power.max_limit": "700.00",
    "clocks.current.sm": "1425",
    "clocks.current.memory": "3201",
    "temperature.gpu": "58",
    "temperature.memory": "46",
    "memory.used": "2867",
    "utilization.gpu": "100",
    "utilization.memory": "17",
    "clocks_event_reasons.active": "0x0000000000000004",
    "clocks_event_reasons_counters.sw_power_cap": "2762586",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "1500000",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "0",
}
"""As an H200 with driver 580.159 answered under load."""

DISCOVERY = """1 GPU found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 3      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:00:06.0                                         |
|        | Device UUID: GPU-32d38ad4                                            |
+--------+----------------------------------------------------------------------+
0 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
+-----------+
"""


def _install(folder: Path, name: str, source: str) -> None:
    script = folder / name
    script.write_text(f"#!{sys.executable} -ISs\n{source}")
    script.chmod(0o755)


class FakeSmi:
    """An ``nvidia-smi`` in ``folder``, which is to be on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _install(folder, "nvidia-smi", _SMI)
        self._state: dict[str, Any] = {
            "gpus": [dict(H200_SMI)],
            "unknown": [],
            "processes": "GPU-32d38ad4, 399, 874\nGPU-other, 400, 100\nGPU-32d38ad4, 401, [N/A]",
            "clocks": "3201, 1980\n3201, 1965\n3201, 345\n2201, 1980",
            "exit": None,
            "refuses": None,
            "ends": False,
            "silent": False,
        }
        self.put()

    def put(self, **state: Any) -> None:
        self._state |= state
        temporary = self.folder / "smi.new"
        temporary.write_text(json.dumps(self._state))
        temporary.replace(self.folder / "smi.json")

    def put_gpu(self, **values: str) -> None:
        gpu = self._state["gpus"][0] | {k.replace("__", "."): v for k, v in values.items()}
        self.put(gpus=[gpu])

    @property
    def settings(self) -> list[str]:
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []


class FakeDcgmi:
    """A ``dcgmi`` in ``folder``, which is to be on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _install(folder, "dcgmi", _DCGMI)
        self.put()

    def put(
        self,
        *,
        fields: dict[str, list[str]] | None = None,
        fails: tuple[int, str] | None = None,
    ) -> None:
        ticks = [str(13_685_501 + 66_000 * i) for i in range(1000)]
        default = {"156": ticks, "1002": ["0.951"], "1004": ["0.924"], "1005": ["0.171"]}
        state = {"fields": fields or default, "fails": fails, "discovery": DISCOVERY}
        (self.folder / "dcgm.json").write_text(json.dumps(state))


def counted(probe: ActivityProbe) -> Activity | None:
    """The activity of a probe; ``None`` while the tool has printed too little."""
    with suppress(MeasurementError):
        return probe.read()
    return None
