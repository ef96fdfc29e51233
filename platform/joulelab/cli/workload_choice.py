"""Command lines in which a workload is chosen: of a command and of an experiment's script."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union, cast

import tyro

from joulelab.registry import unknown_name
from joulelab.workloads import WORKLOADS


def parse_with_workload(
    kind: Any,
    arguments: Sequence[str] | None = None,
    *,
    among: Mapping[str, object] = WORKLOADS,
    default: Any = None,
    **options: Any,
) -> Any:
    """Read a command line in which a workload is chosen and its settings become options.

    Args:
        kind: Generic dataclass whose parameter is the type of the workload's settings.
        arguments: Words of the command line; ``None`` takes those of the process.
        among: Registry whose names are the workloads to choose from.
        default: What to return for an empty command line; ``None`` makes the choice mandatory.
        options: For :func:`tyro.cli`.

    Raises:
        UnknownNameError: If there is no such workload; names the closest.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] not in among:
        raise unknown_name("workload", words[0], among)
    choices = tuple(
        Annotated[workload.settings_type, tyro.conf.subcommand(name, prefix_name=False)]
        for name, workload in WORKLOADS.items()
        if name in among
    )
    config = (tyro.conf.CascadeSubcommandArgs, tyro.conf.FlagCreatePairsOff)
    known = {} if default is None else {"default": default}
    command = cast("Any", kind)[Union[choices]]  # noqa: UP007  # made of a tuple
    return tyro.cli(command, args=words, config=config, **known, **options)


def workload_name(settings: object) -> str:
    """Return the registry name of the workload that ``settings`` belong to."""
    return next(name for name, each in WORKLOADS.items() if each.settings_type is type(settings))
