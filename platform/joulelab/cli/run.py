"""``joulelab run -- PROGRAM``: measure any program from its start to its end.

What is imported here before the program starts delays it; so the rest is imported while it runs.
"""

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tyro

from joulelab.cli.options import (
    ClockOptions,
    check_places,
    choose_addresses,
    parse_before_dashes,
    write_result,
)
from joulelab.errors import ConfigError, JouleLabError
from joulelab.running.child import HELD, Child

if TYPE_CHECKING:  # these would bring numpy before the program has started
    from joulelab.core.device import DeviceAddress
    from joulelab.running.measure import InForce, ProgramUse

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_NEEDS_PROGRAM = (
    "joulelab run needs a program after two dashes, as in: joulelab run -- python train.py "
    "--epochs 3."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(ClockOptions):
    """Measure what a program uses: joulelab run [OPTIONS] -- python train.py --epochs 3.

    The program keeps the terminal, its input and output, and its exit code; signals go through to
    it. What it used is printed to standard error when it has ended. Clocks and limits hold while
    it runs, on the GPUs named or else on all that it may use.
    """

    program: tyro.conf.Suppress[tuple[str, ...]] = ()
    # How to talk to the GPUs: nvml, dcgm, smi, simulated or replay; auto takes the best that finds
    # one.
    device: str = "auto"
    uuid: tuple[str, ...] = ()  # Which GPUs count; by default those that the program is seen on.
    gpu: str | None = None  # Which GPU to simulate, by its catalogue key; for simulated alone.
    # Folder of driver state or recordings, for devices that are not hardware.
    store: str | None = None
    json: str | None = None  # Write the result as JSON to this file; - for the standard output.
    # Log the result as a run to this MLflow store: sqlite:////absolute/path.db or the address of a
    # server.
    mlflow: str | None = None
    experiment: str = "joulelab run"  # Name of the experiment there.

    def run(self) -> int:
        """Run the program and tell what it used; return its exit code.

        That is 128 and the number of a signal that ended it; 126 or 127 if it cannot be started.
        """
        _ = self.point  # refuses what an observer cannot do
        self._check_held()
        child = Child(self.program)
        with ExitStack() as stack:
            stack.callback(child.leave)
            named = self._named()
            settings = None if self.point.is_default else self._settings(stack, named)
            try:
                child.start()
            except OSError as error:
                print(f"joulelab run: {self.program[0]}: {error.strerror}", file=sys.stderr)
                return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            try:
                use = self._measured(child, named, settings)
            finally:
                child.wait()  # whatever became of the measurement
        self._tell(use)
        return use.exit_code

    def _check_held(self) -> None:
        """Check with signals held back: threads of what it imports would take the program's."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            self._check()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _check(self) -> None:
        if not self.program:
            raise ConfigError(_NEEDS_PROGRAM)
        check_places(self.json, self.mlflow)
        if self.device != "auto":
            from joulelab.devices.choice import check_backend

            check_backend(self.device)

    def _named(self) -> "list[DeviceAddress]":
        """Return the GPUs that count whatever is seen; empty for those that the program uses."""
        if not self.uuid and self.gpu is None:
            return []
        found = choose_addresses(self.device, store=self.store, uuids=self.uuid, gpu=self.gpu)
        return list(found.values())

    def _settings(self, stack: ExitStack, named: "Sequence[DeviceAddress]") -> "InForce":
        from joulelab.devices.choice import find_default

        return self.borrow(stack, named or find_default(self.device, self.store), "joulelab run")

    def _measured(
        self, child: Child, named: "Sequence[DeviceAddress]", settings: "InForce | None"
    ) -> "ProgramUse":
        from joulelab.running.measure import beside, measure_child

        missing = ""
        watched = list(named)
        try:
            watched += beside(named, self.device, self.store)
        except JouleLabError as error:  # the program runs on; its processors can be read
            missing = "" if named else str(error)
        return measure_child(
            child, named=named, watched=watched, missing=missing, settings=settings
        )

    def _tell(self, use: "ProgramUse") -> None:
        """Print the result everywhere; what fails is printed too, and changes no exit code."""
        from joulelab.cli.run_report import as_json, log_to_mlflow, print_use
        from joulelab.errors import one_line

        print_use(use)
        try:
            if self.json is not None:
                write_result(as_json(use), self.json)
            if self.mlflow is not None:
                log_to_mlflow(use, self.mlflow, self.experiment)
        except (JouleLabError, OSError) as error:
            print(f"joulelab run: {one_line(error)}", file=sys.stderr)


def parse(arguments: Sequence[str]) -> Run:
    """Read the command line; the program is what follows two dashes."""
    if "--" not in arguments and not {"-h", "--help"} & set(arguments):
        raise ConfigError(_NEEDS_PROGRAM)
    run, program = parse_before_dashes(Run, arguments, prog="joulelab run")
    return replace(run, program=program)
