"""``joulelab kernels TRACE``: what ran on GPUs, from a trace of PyTorch's profiler."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.analysis.attributed.kernels import KernelProfile, answer, frame, lines, page
from joulelab.analysis.table import check_target
from joulelab.attribution.kineto import Launches, read_trace
from joulelab.cli.terminal import Printing
from joulelab.core.bounds import check_range
from joulelab.tracking.durable import write_whole

_SHOWN_LAUNCHES = 400  # launches that a chart of streams can show, where no part is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels(Printing):
    """List the distinct kernels of a trace: how often, how long, from where; streams and gaps."""

    # File that torch.profiler exported (export_chrome_trace), .json or .json.gz.
    trace: tyro.conf.Positional[Path]
    # Write a page with a chart of streams (.html), or all distinct kernels as numbers (.csv,
    # .parquet), to this file.
    out: Path | None = None
    # Where the chart begins, in seconds after the first launch; by default in the middle.
    from_s: float | None = None
    for_s: float | None = None  # How much it shows; by default some hundred launches.

    def run(self) -> int:
        """Read, print and write."""
        check_target(self.out, ".html", ".csv", ".parquet")
        check_range("from_s", self.from_s, 0, 1e6)
        check_range("for_s", self.for_s, 1e-9, 1e6)
        profile = KernelProfile.of(read_trace(self.trace))
        if self.out is not None:
            self._write(profile, self.out)
        table = frame(profile.kernels)
        content = {
            "answer": answer(profile),
            "kernels": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
        }
        self.show(content, lambda: lines(profile))
        return 0

    def _write(self, profile: KernelProfile, out: Path) -> None:
        if out.suffix == ".html":
            start_s, stop_s = self._part(profile.launches)
            write_whole(out, page(profile, self.trace, start_s, stop_s).encode())
        elif out.suffix == ".csv":
            frame(profile.kernels).write(out)
        else:
            frame(profile.kernels).to_pandas().to_parquet(out)

    def _part(self, launches: Launches) -> tuple[float, float]:
        """Return from when to when the chart shows launches one by one."""
        first = max(0, (len(launches) - _SHOWN_LAUNCHES) // 2)
        last = min(len(launches), first + _SHOWN_LAUNCHES) - 1
        start_s = float(launches.start_s[first]) if self.from_s is None else self.from_s
        stop_s = float(launches.start_s[last] + launches.duration_s[last])
        return start_s, max(stop_s, start_s + 1e-6) if self.for_s is None else start_s + self.for_s
