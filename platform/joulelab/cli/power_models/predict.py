"""``joulelab models predict``: power, time and energy of an application at some clocks."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.cli.power_models.asked import as_rows, intervals, predictions, show
from joulelab.cli.power_models.evaluate import MOST_LEVEL
from joulelab.cli.power_models.table import OfTable, one_pair
from joulelab.core.bounds import MOST_MHZ, check_positive, check_range
from joulelab.errors import ConfigError
from joulelab.power_models.artifacts import load_operating_model
from joulelab.power_models.queries import profile_of, sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict(OfTable):
    """Predict an application at some clocks, from its run at the default clock in the table.

    Attributes:
        model: Folder that `joulelab models train` wrote.
        sm_clock_mhz: Clocks to predict.
        application: Which application of the table; by default the only one.
        anchored: Take the power and time that were measured in the table into account.
        level: Of the intervals; 0 asks for none.
        refuse_outside: Refuse what lies outside the training domain, instead of widening.
        json: Print one JSON object instead of text.
    """

    model: tyro.conf.Positional[Path]
    sm_clock_mhz: tuple[float, ...]
    application: str | None = None
    anchored: bool = False
    level: float = 0.9
    refuse_outside: bool = False
    json: bool = False

    def run(self) -> int:
        """Predict and print.

        Returns:
            0.

        Raises:
            ConfigError: If the folder holds no model, the table no such application, or it is
                outside the training domain and that is refused.
        """
        check_range("--level", self.level, 0, MOST_LEVEL)
        for clock_mhz in self.sm_clock_mhz:
            check_positive("--sm-clock-mhz", clock_mhz, MOST_MHZ)
        model, runs = load_operating_model(self.model), self.read()
        pair = one_pair(runs, self.application)
        queries = sweep(profile_of(runs, *pair), self.sm_clock_mhz)
        findings = model.power.domain.findings(queries)
        if self.refuse_outside and findings:
            raise ConfigError(f"Queries must be inside the training domain: {findings[0]}")
        if self.anchored:
            model = model.adapt(runs.select(runs.of_pair(*pair)))
        columns = predictions(model, queries)
        ends = intervals(model, queries, self.level) if self.level else {}
        if self.json:
            rows = as_rows(columns, ends)
            print(json.dumps({"predictions": rows, "outside": list(findings)}, indent=2))
            return 0
        show(f"{pair[1]} on {pair[0]}", columns, ends, [""] * len(queries))
        return 0
