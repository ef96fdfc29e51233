"""``joulelab models trace train``: fit a model of power over time to recordings."""

import json
from dataclasses import dataclass
from pathlib import Path

from joulelab.cli.trace_models.recordings import OfSamples
from joulelab.core.bounds import MOST_SEED, MOST_W, check_positive, check_range
from joulelab.power_models.traces import BASELINE, TRACE_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(OfSamples):
    """Fit a model of power over time to recordings, and write it to a folder.

    Attributes:
        out: Folder to write.
        model: Which model.
        power_limit_w: Power limit that predictions keep to; by default none.
        seed: Of everything random.
        json: Print one JSON object instead of text.
    """

    out: Path
    model: str = BASELINE
    power_limit_w: float | None = None
    seed: int = 0
    json: bool = False

    def run(self) -> int:
        """Fit, write and tell.

        Returns:
            0.

        Raises:
            UnknownNameError: If there is no such model.
            ConfigError: If the recordings do not suffice.
        """
        check_range("--seed", self.seed, 0, MOST_SEED)
        check_positive("--power-limit-w", self.power_limit_w, MOST_W)
        made = TRACE_MODELS[self.model](seed=self.seed, power_limit_w=self.power_limit_w)
        recordings = self.recordings()
        made.fit(recordings).save(self.out)
        told = {
            "folder": str(self.out),
            "model": self.model,
            "num_recordings": len(recordings),
            "duration_s": sum(each.schedule.duration_s for each in recordings),
            "data_hash": made.data_hash,
            "phases": list(made.encoding.phases),
            "training_domain": {name: list(ends) for name, ends in made.encoding.ranges.items()},
        }
        if self.json:
            print(json.dumps(told, indent=2))
            return 0
        print(
            f"{self.model} from {len(recordings)} recordings of {told['duration_s']:.4g} s in all "
            f"(data {made.data_hash}): {self.out}"
        )
        return 0
