"""``joulelab models train``: fit a model of power and one of time to a table of runs."""

import json
from dataclasses import dataclass
from pathlib import Path

from joulelab.cli.power_models.table import OfTable
from joulelab.core.bounds import MOST_SEED, check_range
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(OfTable):
    """Fit a model of power and one of time to runs, and write them to a folder.

    Attributes:
        out: Folder to write.
        power: Model of power.
        time: Model of time.
        seed: Of everything random.
        json: Print one JSON object instead of text.
    """

    out: Path
    power: str = "physics"
    time: str = "physics"
    seed: int = 0
    json: bool = False

    def run(self) -> int:
        """Fit, write and tell.

        Returns:
            0.

        Raises:
            UnknownNameError: If there is no such model.
            ConfigError: If the table does not suffice.
        """
        check_range("--seed", self.seed, 0, MOST_SEED)
        model = OperatingModel(
            power=POWER_MODELS[self.power]("power_w", seed=self.seed),
            time=POWER_MODELS[self.time]("time_s", seed=self.seed),
        )
        runs = self.read()
        model.fit(runs).save(self.out)
        told = {
            "folder": str(self.out),
            "power": self.power,
            "time": self.time,
            "num_runs": len(runs),
            "num_applications": len(runs.pairs),
            "data_hash": model.power.data_hash,
            "training_domain": {name: list(r) for name, r in model.power.domain.ranges.items()},
        }
        if self.json:
            print(json.dumps(told, indent=2))
            return 0
        print(
            f"{self.power} of power and {self.time} of time, from {len(runs)} runs of "
            f"{len(runs.pairs)} applications (data {model.power.data_hash}): {self.out}"
        )
        return 0
