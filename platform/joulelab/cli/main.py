"""The ``joulelab`` command: a literal table of commands, each imported when it is called."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from joulelab.cli.errors import BAD_REQUEST, exit_code, quiet_imports
from joulelab.errors import UnknownNameError
from joulelab.registry import unknown_name

COMMANDS = {
    "estimate": ("cli.estimate:Estimate", "Predict latency, energy and memory of models."),
    "compare": ("cli.compare:Compare", "Predict devices side by side."),
    "estimate-sweep": (
        "cli.estimate_sweep:Sweep",
        "Predict the best clock, batch size and precision.",
    ),
    "memory": ("cli.estimate:Memory", "Show the memory that models need."),
    "estimate-cpu": ("cli.compare:EstimateCpu", "Predict the events inside a CPU."),
    "estimate-gpu": ("cli.compare:EstimateGpu", "Predict the events inside a GPU."),
    "estimate-tpu": ("cli.compare:EstimateTpu", "Predict the events inside a TPU."),
    "estimate-kpu": ("cli.compare:EstimateKpu", "Predict the events inside a KPU."),
    "validate": ("cli.processors:Validate", "Compare predictions with measurements."),
    "calibrate": ("cli.calibrate:Calibrate", "Measure a board or host, or fit a device."),
    "processors": ("cli.processors:Processors", "List the devices that can be estimated."),
    "hardware": ("cli.hardware:parse", "Add GPUs of your own to the catalogue; list, check them."),
    "models": (
        "cli.models:parse",
        "List models to estimate; train, evaluate, predict, sweep, register power models.",
    ),
    "devices": ("cli.devices:Devices", "Show the GPUs of this machine."),
    "top": ("cli.top:Top", "Watch power, energy, clocks and loans of this machine's GPUs."),
    "export-metrics": ("cli.top:ExportMetrics", "Serve what `top` shows to Prometheus."),
    "doctor": ("cli.doctor:Doctor", "Check that results here can be believed."),
    "measure": ("cli.measure:parse", "Measure one workload, with an error bar."),
    "attribute": ("cli.attribute:parse", "Attribute energy to components, layers and kernels."),
    "kernels": ("cli.attribute:Kernels", "List the GPU kernels of a trace of PyTorch's profiler."),
    "study": ("cli.study:parse", "Sweep clocks, search, compare formats ...: list or run a study."),
    "govern": ("cli.govern:parse", "Control the clock of a running program; tell what it saved."),
    "run": ("cli.run:parse", "Run any program and measure what it uses."),
    "bench-server": ("cli.bench_server:parse", "Drive a model's server; energy and latencies."),
    "quality": ("cli.measure:parse_quality", "Score what a workload puts out, beside its energy."),
    "policy": (
        "cli.many_studies:PolicyCommand",
        "Choose one clock, or a few, for many applications.",
    ),
    "fleet": (
        "cli.many_studies:FleetCommand",
        "Compare the boards of a cluster: spread and outliers.",
    ),
    "plan": ("cli.results:Plan", "Say how many repeats show a change of so much."),
    "report": ("cli.results:Report", "Make tables, plots and reports of studies anew."),
    "watch": ("cli.watch:Watch", "Serve the page of a running study: progress, front, failures."),
    "ui": ("cli.watch:Ui", "Open the MLflow pages of the results."),
    "guard": ("cli.guard:Guard", "Run the clock guard of this node, or ask it."),
    "sync": ("cli.results:Sync", "Deliver results that MLflow missed."),
    "repair": ("cli.results:Repair", "Set aside what is broken in a results folder."),
}
"""Where below ``joulelab`` a command is, and one line for ``joulelab --help``.

It is a dataclass with ``run(self) -> int``, or a function that takes the command's arguments and
returns such an object.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, by default those of the process.

    Returns the exit code: 0, 1 if the answer is bad, 2 if the request was, 130 if interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else BAD_REQUEST
    if words[0] in ("-V", "--version"):
        from joulelab.provenance import joulelab_version

        print(f"joulelab {joulelab_version()}")
        return 0
    return exit_code(lambda: int(_parse(words[0], words[1:]).run()), name="joulelab")


def _parse(name: str, arguments: list[str]) -> Any:
    if name == "sweep":
        raise UnknownNameError(
            "To measure a sweep, run 'joulelab study dvfs'; to predict one, "
            "'joulelab estimate-sweep'."
        )
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module, _, attribute = COMMANDS[name][0].partition(":")
    with quiet_imports():
        import tyro

        command = getattr(importlib.import_module(f"joulelab.{module}"), attribute)
    if not isinstance(command, type):
        return command(arguments)
    has_model = "model" in getattr(command, "__dataclass_fields__", ())
    if has_model and arguments and arguments[0][:1] != "-":
        arguments = ["--model", *arguments]  # `estimate resnet50`, as `measure gemm`
    config = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(command, args=arguments, prog=f"joulelab {name}", config=config)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: joulelab COMMAND [OPTIONS]",
            "",
            "Predict, measure and optimise the energy of GPU programs.",
            "",
            *lines,
            "",
            "joulelab COMMAND --help tells more; joulelab --version says which this is.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
