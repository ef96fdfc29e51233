"""Quality and energy of a workload's configurations, as a table and as JSON."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Literal

from rich.table import Table
from rich.text import Text

from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, uncertain
from joulelab.analysis.table import quiet_table
from joulelab.core.codec import to_json
from joulelab.core.configuration import Configuration, KnobValue, knob_words
from joulelab.core.device import board_words
from joulelab.core.measurement import Measurement
from joulelab.core.quality import RETENTION_LEVEL, Quality
from joulelab.core.record import Record
from joulelab.quality.evaluation import Row

_BETTER = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}
_NONE = "-"
_INTERVAL = f"{RETENTION_LEVEL:.0%} interval"
LESS_WANTED = ("change", _INTERVAL)
"""Columns that a narrow terminal does without, the first one first."""
_TO = "\N{EN DASH}"
_DECIMALS = 4
_PLAIN = 1e-3  # smaller scores are written with an exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One configuration: what its outputs are worth, and what they cost."""

    knobs: Mapping[str, KnobValue]
    configuration: Configuration
    rows: Sequence[Row]
    # Measurements, one per phase; a text that says why there are none; or None where none were
    # wanted
    cost: tuple[Record, ...] | str | None

    @property
    def title(self) -> str:
        """What sets it apart."""
        return knob_words(self.knobs.items())

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements, with what the outputs are worth."""
        if self.cost is None or isinstance(self.cost, str):
            return ()
        scored = tuple(row.quality for row in self.rows if row.quality is not None)
        return tuple(replace(record.measurement, quality=scored) for record in self.cost)

    @property
    def is_whole(self) -> bool:
        """Whether every score is there, and every energy that was wanted."""
        costs = self.cost is None or bool(self.measurements)
        valid = all(measurement.valid for measurement in self.measurements)
        return costs and valid and all(row.quality is not None for row in self.rows)


def quality_table(workload: str, cases: Sequence[Scored], without: Collection[str] = ()) -> Table:
    """Lay the cases out, one line for each metric, energies on the first line of each.

    The first case is the reference.
    """
    notes = "\n".join(_notes(cases))
    table = quiet_table(title=_title(workload, cases), caption=notes, padding=(0, 0))
    table.title_style = "bold"
    phases = {each.phase for case in cases for each in case.measurements}
    heads = ["metric", "score", "retention", _INTERVAL]
    units = [each.unit for case in cases for each in case.measurements]
    heads += ["phase"] if len(phases) > 1 else []
    heads += [f"energy/{units[0]}", "change"] if phases else []
    for head in (each for each in heads if each not in without):
        justify: Literal["left", "right"] = "left" if head in {"metric", "phase"} else "right"
        table.add_column(head, justify=justify, no_wrap=True)
    for case in cases:
        if case.knobs:
            table.add_row(Text(case.title, style="bold"))
        for scored, measured in zip_longest(
            _score_cells(case, cases[0]), _energy_cells(case, cases[0])
        ):
            cells = [*(scored or [""] * 4), *(measured or [])[len(phases) == 1 :]]
            pairs = zip(heads, cells, strict=False)
            table.add_row(*(cell for head, cell in pairs if head not in without))
        table.add_section()
    return table


def as_json(cases: Sequence[Scored]) -> str:
    """Return the cases as one JSON object; measurements are as they are stored."""
    described = [
        {
            "knobs": dict(case.knobs),
            "configuration": asdict(case.configuration),
            "weights": _weights(case),
            "quality": [_row_fields(row) for row in case.rows],
            "measurements": [json.loads(to_json(each)) for each in case.measurements],
            "energy_note": case.cost if isinstance(case.cost, str) else "",
        }
        for case in cases
    ]
    return json.dumps({"configurations": described}, indent=2)


def _row_fields(row: Row) -> dict[str, object]:
    scored = {} if row.quality is None else asdict(row.quality)
    return {"metric": row.metric, **scored, "note": row.note}


def _score_cells(case: Scored, reference: Scored) -> list[list[str]]:
    cells = []
    for row in case.rows:
        quality = row.quality
        if quality is None:
            cells.append([row.metric, _NONE, "", ""])
            continue
        metric = f"{row.metric} {_BETTER[quality.direction]}"
        cells.append([metric, _score(quality), *_kept(quality)])
        if case is reference:
            cells[-1][-1] = ""
    return cells


def _kept(quality: Quality) -> tuple[str, str]:
    """Return the retention and its interval, to the second digit of the interval's half-width."""
    low, high = quality.retention_low, quality.retention_high
    if quality.retention is None:
        return _NONE, ""
    if low is None or high is None:
        return f"{quality.retention:.{_DECIMALS}f}", _NONE
    decimals = max(decimals_for((high - low) / 2), _DECIMALS)
    return f"{quality.retention:.{decimals}f}", f"{low:.{decimals}f}{_TO}{high:.{decimals}f}"


def _score(quality: Quality) -> str:
    score, u = quality.score, quality.score_u
    if not u:
        return f"{score:.5g}"
    if not abs(score) >= _PLAIN:
        return f"{score:.3g} {PLUS_MINUS} {u:.2g}"
    decimals = decimals_for(u)
    return f"{score:.{decimals}f} {PLUS_MINUS} {u:.{decimals}f}"


def _energy_cells(case: Scored, reference: Scored) -> list[list[str]]:
    cells, by_phase = [], {each.phase: each for each in reversed(reference.measurements)}
    for ours in case.measurements:
        theirs = by_phase.get(ours.phase)
        energy, change = _NONE, ""
        if ours.valid:
            energy = uncertain(ours.energy_per_unit_j, ours.energy_per_unit_u_j, "J")
            if case is not reference and theirs is not None and theirs.valid:
                share = ours.energy_per_unit_j / theirs.energy_per_unit_j - 1
                change = f"{share:+.1%}" if abs(share) < 1 else f"{share:+.0%}"
        cells.append([ours.phase, energy, change])
    return cells


def _title(workload: str, cases: Sequence[Scored]) -> str:
    data = next((row.quality.data for case in cases for row in case.rows if row.quality), None)
    device = next((each.device for case in cases for each in case.measurements), None)
    where = "" if device is None else f", energy of {board_words(device)}"
    return f"{workload}{'' if data is None else f' on {data}'}{where}"


def _notes(cases: Sequence[Scored]) -> list[str]:
    notes = [f"{PLUS_MINUS} standard uncertainty (k=1). Scored: {_counts(cases)}"]
    if len(cases) > 1:
        notes.append(
            f"Retention, its {_INTERVAL} over data of this kind and size, and change: against "
            f"{cases[0].title}"
        )
    if any(_weights(case) == "random" for case in cases):
        notes.append(
            "Random weights: what is scored is no trained network. An agreement of random networks "
            "tells what the number format does to their numbers; a trained one may lose more or "
            "less."
        )
    return notes + _reasons(cases)


def _counts(cases: Sequence[Scored]) -> str:
    found: dict[str, list[str]] = {}
    for quality in (row.quality for row in cases[0].rows if row.quality):
        plural = quality.counted if quality.n == 1 else f"{quality.counted}s"
        found.setdefault(f"{quality.n} {plural}", []).append(quality.metric)
    if len(found) < 2:
        return next(iter(found), "nothing")
    return "; ".join(f"{count} by {' and '.join(metrics)}" for count, metrics in found.items())


def _reasons(cases: Sequence[Scored]) -> list[str]:
    """Say why something is missing: each reason once, with all that it holds for."""
    found: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        faults = [finding.detail for each in case.measurements for finding in each.findings]
        faults = [case.cost] if isinstance(case.cost, str) else faults
        notes = [(row.note, row.metric) for row in case.rows if row.note]
        for why, what in [*notes, *((fault, "energy") for fault in faults)]:
            found.setdefault(why, {}).setdefault(what, []).append(case.title)
    return [f"{_missing(whats)}: {why}" for why, whats in found.items()]


def _missing(whats: Mapping[str, Sequence[str]]) -> str:
    titles = dict.fromkeys(title for each in whats.values() for title in each if title)
    return ", ".join(whats) + (f" of {'; '.join(titles)}" if titles else "")


def _weights(case: Scored) -> str | None:
    knobs = dict(case.configuration.knobs)
    return str(knobs["weights"] or "random") if "weights" in knobs else None
