"""Bounds of numbers that a user gives: finite, and of a size that can end."""

from joulelab.errors import ConfigError

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
MOST_TRIALS = 1_000_000
"""Trials of one study; a GPU that takes five seconds for each is busy with them for two months."""
MOST_SEED = 2**32 - 1
"""What numpy and its relatives take."""
MOST_W, MOST_S, MOST_MHZ = 1e6, 1e9, 1e5
"""No board takes a megawatt, no reading is thirty years long, and no clock runs at 100 GHz."""


def check_range(what: str, value: float | None, least: float, most: float) -> None:
    """Refuse a number that is not within ``least`` and ``most``; ``None`` passes.

    Raises ConfigError if it is not, or is no number.
    """
    if value is not None and not least <= value <= most:
        raise ConfigError(f"{what} must be within {least:g} and {most:g}, got {value}.")


def check_positive(what: str, value: float | None, most: float) -> None:
    """Refuse a number that is not above 0 and at most ``most``; ``None`` passes.

    Raises ConfigError if it is not, or is no number.
    """
    if value is not None and not 0 < value <= most:
        raise ConfigError(f"{what} must be positive and at most {most:g}, got {value}.")
