"""``joulelab models``: the models that can be estimated, and power models learned from runs."""

import importlib
from collections.abc import Sequence
from typing import Any

import tyro

from joulelab.errors import ConfigError

SUBCOMMANDS = {
    "train": "joulelab.cli.power_models.train:Train",
    "evaluate": "joulelab.cli.power_models.evaluate:Evaluate",
    "predict": "joulelab.cli.power_models.predict:Predict",
    "sweep": "joulelab.cli.power_models.sweep:Sweep",
    "register": "joulelab.cli.power_models.register:Register",
    "trace train": "joulelab.cli.trace_models.train:Train",
    "trace evaluate": "joulelab.cli.trace_models.evaluate:Evaluate",
    "trace predict": "joulelab.cli.trace_models.predict:Predict",
    "trace register": "joulelab.cli.trace_models.register:Register",
}
"""What may be done with power models; any other word filters the list of networks."""
_TRACE = "trace"
_LIST = "joulelab.cli.estimator.models:Models"


def parse(arguments: Sequence[str]) -> Any:
    """Read the command line of ``joulelab models``.

    Args:
        arguments: Its words; without a subcommand, those of the list of networks.

    Returns:
        An object with ``run() -> int``.
    """
    words = list(arguments)
    chosen = _chosen(words)
    module, _, attribute = SUBCOMMANDS.get(chosen, _LIST).partition(":")
    command = getattr(importlib.import_module(module), attribute)
    return tyro.cli(
        command,
        args=words[len(chosen.split()) :],
        prog=f"joulelab models {chosen}".strip(),
        description=None if chosen else f"{command.__doc__.splitlines()[0]}\n\n{_TOLD}",
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _chosen(words: Sequence[str]) -> str:
    """Return the subcommand that ``words`` begin with; empty if it is none."""
    if list(words[:1]) != [_TRACE] or "--help" in words[1:2]:
        return words[0] if words and words[0] in SUBCOMMANDS else ""
    chosen = " ".join(words[:2])
    if chosen not in SUBCOMMANDS:
        raise ConfigError(
            f"joulelab models {_TRACE} must be followed by one of {', '.join(_OF_TRACES)}, got "
            f"{' '.join(words[1:2]) or 'nothing'!r}."
        )
    return chosen


_OF_TRACES = tuple(name.split()[1] for name in SUBCOMMANDS if name.startswith(f"{_TRACE} "))
_OF_RUNS = tuple(name for name in SUBCOMMANDS if not name.startswith(f"{_TRACE} "))
_TOLD = (
    f"Power models learned from runs: joulelab models {'|'.join(_OF_RUNS)} --help.\n\n"
    f"Of power over time, from recordings: joulelab models {_TRACE} {'|'.join(_OF_TRACES)} --help."
)
