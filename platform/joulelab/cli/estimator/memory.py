"""``joulelab memory``: what a model needs of a device's memory."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from joulelab.analysis.estimates.memory_table import fit_sentence, fits_table, memory_table
from joulelab.cli.estimator.options import Asking
from joulelab.cli.estimator.terminal import terminal
from joulelab.cli.progress import progress
from joulelab.estimator.fitting import Fit, fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Asking):
    """Show the memory that models need: parts, timeline, and the largest batch that fits."""

    def run(self) -> int:
        """Trace and print.

        Returns:
            0, or 1 if something does not fit.

        Raises:
            ConfigError: If a name is not known, or a model cannot be traced.
        """
        with progress() as say:
            found = fits(self.question(), progress=say)
        if self.json:
            print(json.dumps({"memory": [_told(fit) for fit in found]}, indent=2))
        else:
            _show(found)
        return int(not all(fit.worst.fits for fit in found))


def _show(found: Sequence[Fit]) -> None:
    console = terminal()
    for fit in found:
        console.print(fit_sentence(fit), style="bold")
    if len(found) > 1:
        console.print(fits_table(found))
        return
    for phase, memory in found[0].phases.items():
        console.print()
        console.print(memory_table(phase, memory))


def _told(fit: Fit) -> dict[str, object]:
    return {
        "model": fit.model,
        "device": fit.processor.key,
        "precision": fit.precision,
        "batch": fit.batch,
        "fits": fit.worst.fits,
        "peak_b": fit.worst.peak_b,
        "largest_batch": fit.largest_batch,
        "phases": {name: asdict(memory) for name, memory in fit.phases.items()},
    }
