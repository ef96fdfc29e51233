"""Open a GPU, borrow its clocks, and govern it while something runs."""

from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.base import Device
from joulelab.devices.choice import find_default, find_visible, open_in_real_time
from joulelab.devices.control import Control
from joulelab.errors import ConfigError, DevicePermissionError, DeviceUnsupportedError
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.loads import SimulatedLoad
from joulelab.governor.observing import Tenants
from joulelab.governor.report import GovernorReport, report
from joulelab.governor.strategy import Rules, Strategy
from joulelab.guard.control import GuardedControl
from joulelab.monitor.sensors import OwnProcesses
from joulelab.running.child import Child

NOTE = "joulelab govern"


@contextmanager
def govern(
    strategy: str = "model",
    rules: Rules | None = None,
    *,
    device: str = "auto",
    uuid: str | None = None,
    observe_only: bool = False,
    guard_socket: Path | None = None,
) -> Generator[Governor]:
    """Govern a GPU of this machine while the ``with`` block runs.

    ::

        with joulelab.govern(device="simulated") as governor:
            step()
            governor.progress()

    Afterwards ``joulelab.governor.report.report(governor)`` is what it did. Clocks are borrowed
    from the clock guard and restored however the block, or the process, ends.

    Args:
        strategy: Who chooses: a name of :data:`joulelab.governor.STRATEGIES`.
        rules: What is asked for; by default EDP within a slowdown of 5 %.
        device: How to talk to the GPU; ``"auto"`` takes the best that finds one.
        uuid: Which GPU; by default the first that this process may use.
        observe_only: Call no setter, ever.
        guard_socket: Where a clock guard listens; ``None`` for the usual place.

    Raises:
        ConfigError: If the strategy cannot do with the rules.
        DeviceError: If there is no such GPU.
        GuardError: If somebody else has its clocks on loan; names who.
    """
    rules = rules or Rules()
    chosen = STRATEGIES[strategy](rules)
    address = _address(device, uuid)
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_in_real_time(address)))
        control = borrowed(stack, opened, address, observe_only, guard_socket)
        own = OwnProcesses()
        own.begin(opened)
        yield stack.enter_context(governor_of(opened, control, chosen, Tenants(opened, own)))


def borrowed(
    stack: ExitStack,
    device: Device,
    address: DeviceAddress,
    observe_only: bool,
    guard_socket: Path | None,
) -> Control | str:
    """Borrow the clocks of a device until ``stack`` ends.

    Returns:
        Who sets them, or why nobody may.

    Raises:
        GuardError: If somebody else has them on loan.
    """
    if observe_only:
        return "it was asked to observe only"
    control = GuardedControl(address, socket_path=guard_socket, note=NOTE)
    stack.callback(control.close)
    try:
        control.apply(OperatingPoint())
    except (DevicePermissionError, DeviceUnsupportedError) as error:
        return str(error)
    return control


def governor_of(
    device: Device, control: Control | str, strategy: Strategy, tenants: Tenants
) -> Governor:
    """Return a governor, which only observes where ``control`` says why."""
    if isinstance(control, str):
        return Governor(device, None, strategy, strategy.rules, tenants, why=control)
    return Governor(device, control, strategy, strategy.rules, tenants)


def govern_load(governor: Governor, load: SimulatedLoad, duration_s: float) -> GovernorReport:
    """Govern a simulated GPU while it plays a load, in its own time, or until an interruption."""
    with governor, suppress(KeyboardInterrupt):
        load.play(duration_s)
    return finished(governor)


def govern_time(governor: Governor, duration_s: float) -> GovernorReport:
    """Govern whatever runs for a time, or until it is interrupted."""
    with governor, suppress(KeyboardInterrupt):
        governor.device.clock.sleep_s(duration_s)
    return finished(governor)


def govern_child(governor: Governor, child: Child) -> GovernorReport:
    """Govern while a program runs that was just started."""
    with governor:
        child.wait()
    left = child.outlived_by()
    if left:
        governor.notes.append(
            f"The program left processes behind: {', '.join(left)}. They run on at the driver's "
            "own clocks; what is governed is the time until the program ended."
        )
    return finished(governor)


def finished(governor: Governor) -> GovernorReport:
    """Return the report of a governor that was stopped.

    Raises:
        DeviceLostError: If the device has gone meanwhile.
        MeasurementError: If it failed in another way.
    """
    governor.raise_if_failed()
    return report(governor)


def _address(device: str, uuid: str | None) -> DeviceAddress:
    there = find_default(device) if uuid is None else find_visible(device)
    for address in there:
        if uuid in (None, address.uuid):
            return address
    raise ConfigError(
        f"uuid must be of a GPU that is there, got {uuid}; there are: "
        f"{', '.join(address.uuid for address in there)}."
    )
