"""``joulelab models``: the models that can be estimated, and power models learned from runs."""

import importlib
from collections.abc import Sequence
from typing import Any

import tyro

SUBCOMMANDS = {
    "train": "joulelab.cli.power_models.train:Train",
    "evaluate": "joulelab.cli.power_models.evaluate:Evaluate",
    "predict": "joulelab.cli.power_models.predict:Predict",
    "sweep": "joulelab.cli.power_models.sweep:Sweep",
    "register": "joulelab.cli.power_models.register:Register",
}
"""What may be done with power models; any other word filters the list of networks."""
_LIST = "joulelab.cli.estimator.models:Models"


def parse(arguments: Sequence[str]) -> Any:
    """Read the command line of ``joulelab models``.

    Args:
        arguments: Its words; without a subcommand, those of the list of networks.

    Returns:
        An object with ``run() -> int``.
    """
    words = list(arguments)
    chosen = words[0] if words and words[0] in SUBCOMMANDS else ""
    module, _, attribute = SUBCOMMANDS.get(chosen, _LIST).partition(":")
    command = getattr(importlib.import_module(module), attribute)
    return tyro.cli(
        command,
        args=words[1:] if chosen else words,
        prog=f"joulelab models {chosen}".strip(),
        description=None if chosen else f"{command.__doc__.splitlines()[0]}\n\n{_TOLD}",
        config=(tyro.conf.FlagCreatePairsOff,),
    )


_TOLD = f"Power models learned from runs: joulelab models {'|'.join(SUBCOMMANDS)} --help."
