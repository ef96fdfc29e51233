"""The ``joulelab`` command: a literal table of commands, each imported when it is called."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from joulelab.cli.errors import BAD_REQUEST, exit_code, quiet_imports
from joulelab.registry import unknown_name


class Command(NamedTuple):
    """One command of the table.

    Attributes:
        target: ``"module:attribute"``: a dataclass with ``run(self) -> int``, or a function
            that takes the command's arguments and returns such an object.
        summary: One line for ``joulelab --help``.
    """

    target: str
    summary: str


COMMANDS = {
    "estimate": Command(
        "joulelab.cli.estimator.estimate:Estimate", "Predict latency, energy and memory of models."
    ),
    "compare": Command("joulelab.cli.estimator.compare:Compare", "Predict devices side by side."),
    "sweep": Command(
        "joulelab.cli.estimator.sweep:Sweep", "Predict the best clock, batch size and precision."
    ),
    "memory": Command("joulelab.cli.estimator.memory:Memory", "Show the memory that models need."),
    "estimate-cpu": Command(
        "joulelab.cli.estimator.families:EstimateCpu", "Predict the events inside a CPU."
    ),
    "estimate-gpu": Command(
        "joulelab.cli.estimator.families:EstimateGpu", "Predict the events inside a GPU."
    ),
    "estimate-tpu": Command(
        "joulelab.cli.estimator.families:EstimateTpu", "Predict the events inside a TPU."
    ),
    "estimate-kpu": Command(
        "joulelab.cli.estimator.families:EstimateKpu", "Predict the events inside a KPU."
    ),
    "validate": Command(
        "joulelab.cli.estimator.validate:Validate", "Compare predictions with measurements."
    ),
    "calibrate": Command(
        "joulelab.cli.estimator.calibrate:Calibrate", "Fit a device to micro-benchmarks."
    ),
    "processors": Command(
        "joulelab.cli.estimator.processors:Processors", "List the devices that can be estimated."
    ),
    "models": Command(
        "joulelab.cli.models:parse",
        "List models to estimate; train, evaluate, predict, sweep, register power models.",
    ),
    "devices": Command("joulelab.cli.devices:Devices", "Show the GPUs of this machine."),
    "doctor": Command("joulelab.cli.doctor:Doctor", "Check that results here can be believed."),
    "measure": Command("joulelab.cli.measure:parse", "Measure one workload, with an error bar."),
    "quality": Command(
        "joulelab.cli.quality:parse", "Score what a workload puts out, beside its energy."
    ),
    "policy": Command(
        "joulelab.cli.policy:PolicyCommand", "Choose one clock, or a few, for many applications."
    ),
    "report": Command(
        "joulelab.cli.study_report:Report", "Make tables, plots and reports of studies anew."
    ),
    "guard": Command("joulelab.cli.guard:Guard", "Run the clock guard of this node, or ask it."),
    "sync": Command("joulelab.cli.sync:Sync", "Deliver results that MLflow missed."),
    "repair": Command(
        "joulelab.cli.repair:Repair", "Set aside what is broken in a results folder."
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: Words of the command line; ``None`` takes those of the process.

    Returns:
        The exit code: 0, 1 if the answer is bad, 2 if the request was, 130 if interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else BAD_REQUEST
    return exit_code(lambda: int(_parse(words[0], words[1:]).run()), name="joulelab")


def _parse(name: str, arguments: list[str]) -> Any:
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module, _, attribute = COMMANDS[name].target.partition(":")
    with quiet_imports():
        import tyro

        command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, type):
        return command(arguments)
    config = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(command, args=arguments, prog=f"joulelab {name}", config=config)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: joulelab COMMAND [OPTIONS]",
            "",
            "Predict, measure and optimise the energy of GPU programs.",
            "",
            *lines,
            "",
            "joulelab COMMAND --help tells more.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
