"""Energy of the machine's processors, where Linux lets it be read (RAPL through powercap)."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from joulelab.monitor.window import CpuUse

POWERCAP = Path("/sys/class/powercap")


class Rapl:
    """The energy counters of the packages and of their memory, below the folder of power caps.

    Intel's and AMD's drivers both register under ``intel-rapl``. Since CVE-2020-8694 kernels let
    root alone read them by default.
    """

    def __init__(self, root: Path = POWERCAP) -> None:
        zones = sorted(root.glob("intel-rapl:*"))
        named = [(zone, _text(zone / "name")) for zone in zones]
        self._packages = [zone for zone, name in named if name.startswith("package")]
        self._drams = [zone for zone, name in named if name == "dram"]
        self.reason = self._reason_unread(root)
        """Why they cannot be read; empty where they can."""
        self._last_j = {} if self.reason else {zone: _read_j(zone) for zone in self._zones}
        self._sum_j = dict.fromkeys(self._last_j, 0.0)
        self._lock = Lock()

    def read_j(self) -> Mapping[Path, float]:
        """Read what every counter has counted since this was made, in joules.

        The counters begin anew after some 20 minutes of full load, so they must be read more often
        than that. May be called from several threads.
        """
        with self._lock:
            for zone, before_j in self._last_j.items():
                self._last_j[zone] = _read_j(zone)
                self._sum_j[zone] += _risen_j(zone, before_j, self._last_j[zone])
            return dict(self._sum_j)

    def use(self, before_j: Mapping[Path, float], after_j: Mapping[Path, float]) -> CpuUse:
        """Return what was used between two readings."""
        if self.reason:
            return CpuUse(reason=self.reason)
        spent_j = {zone: after_j[zone] - before_j[zone] for zone in before_j}
        return CpuUse(
            known_package_j=sum(spent_j[zone] for zone in self._packages),
            known_dram_j=sum(spent_j[zone] for zone in self._drams) if self._drams else None,
        )

    @property
    def _zones(self) -> list[Path]:
        return self._packages + self._drams

    def _reason_unread(self, root: Path) -> str:
        if not self._packages:
            return f"This system shows no energy counter of its processors under {root}."
        try:
            for zone in self._zones:
                (zone / "energy_uj").read_text()
        except OSError as error:
            return (
                f"This system lets its processors' energy be read by others only ({error}); an "
                "administrator can allow it: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj."
            )
        return ""


def _risen_j(zone: Path, before_j: float, after_j: float) -> float:
    """Return how far a counter rose that may have begun anew in between."""
    if after_j >= before_j:
        return after_j - before_j
    return after_j - before_j + 1e-6 * int(_text(zone / "max_energy_range_uj"))


def _read_j(zone: Path) -> float:
    return 1e-6 * int((zone / "energy_uj").read_text())


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
