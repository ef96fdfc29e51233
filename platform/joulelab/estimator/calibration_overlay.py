"""A calibration as sections of a data file of the catalogue."""

from collections.abc import Iterator

from joulelab.estimator.calibration import Calibration, FittedFigure
from joulelab.hardware.chip import BUSY_SM_SHARE
from joulelab.hardware.processor import Processor


def overlay(calibration: Calibration, source: str) -> str:
    """Return the fitted figures as TOML, in the sections and units of the data file.

    Figures that ran into a bound are left out, as no point identifies them.

    Args:
        calibration: The fit.
        source: On what the figures were measured, for each figure's ``source``.
    """
    sections: dict[str, list[str]] = {}
    for figure in calibration.figures:
        if not figure.at_bound:
            section, name, value = _entry(calibration.processor, figure)
            told = f"{source}; {figure.num_points} points".replace('"', "'")
            entry = f'{name} = {{ value = {value:.4g}, status = "F", source = "{told}" }}'
            sections.setdefault(section, []).append(entry)
    return "\n\n".join(_lines(sections)) + "\n"


def _lines(sections: dict[str, list[str]]) -> Iterator[str]:
    for section, entries in sections.items():
        yield "\n".join([f"[{section}]", *entries])


def _entry(processor: Processor, figure: FittedFigure) -> tuple[str, str, float]:
    """Return section, name and value as the data file has them."""
    section, _, rest = figure.name.partition(".")
    field, _, key = rest.partition(".")
    if field == "flop_j" and processor.family == "gpu":
        flop_per_clock = processor.flop_per_clock[key]  # type: ignore[index]
        return "pipe_w_per_ghz", key, figure.value * flop_per_clock * 1e9
    if key and section != "levels":
        return field.removesuffix("_s"), key, figure.value
    if section == "levels":
        return _level_entry(processor, field, key, figure.value)
    if rest == "busy_w_per_ghz" and processor.family == "gpu":
        return "power", "sm_w_per_ghz", figure.value / BUSY_SM_SHARE
    return section, rest, figure.value


def _level_entry(
    processor: Processor, level: str, field: str, value: float
) -> tuple[str, str, float]:
    """A GPU's file has the energies of its levels under power, and its cache's bytes per clock."""
    if processor.family != "gpu":
        return f"levels.{level}", *_scaled(processor, level, field, value)
    if field == "byte_j":
        name = "dram_j_per_b" if level == processor.memory.name else "crossbar_j_per_b"
        return "power", name, value
    return "chip", "l2_b_per_clock", value / (processor.default_clock_mhz * 1e6)


def _scaled(processor: Processor, level: str, field: str, value: float) -> tuple[str, float]:
    on_clock = {known.name: known.on_core_clock for known in processor.levels}[level]
    if field != "bandwidth_b_per_s" or not on_clock:
        return field, value
    clock_hz = processor.default_clock_mhz * 1e6
    return "b_per_clock_per_core", value / processor.num_cores / clock_hz
