"""A live view as a table for a terminal."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from joulelab.core.device import GpuProcess
from joulelab.live.reading import THROTTLES, LiveReading
from joulelab.live.session import LiveView, Loan, Loans

_GIB = 2**30
_UNREAD = "-"


def live_table(view: LiveView) -> Table:
    """Draw a view, one row per GPU."""
    table = Table(caption=_caption(view), caption_justify="left", show_lines=True)
    table.add_column("GPU")
    for heading in ("power\nW", "energy\nJ", "SM, mem.\nMHz", "temp.\nC", "in use"):
        table.add_column(heading, justify="right")
    table.add_column("state", overflow="fold")
    for gpu in view.gpus:
        table.add_row(*map(Text, _cells(gpu, view.loans)))
    return table


def loan_in_words(loan: Loan) -> str:
    """Say who holds a GPU, at which point, and for which study."""
    lease = loan.lease
    held = f"pid {lease.pid} of uid {lease.uid} at {lease.point}: {lease.note or 'no note'}"
    if loan.study is None:
        return held
    trial = "none measured here yet" if loan.last_trial is None else f"last {loan.last_trial}"
    return f"{held}; {loan.study}, {trial}"


def _cells(gpu: LiveReading, loans: Loans) -> tuple[str, ...]:
    state = gpu.state
    limit_w = None if state is None else state.power_limit_w
    clocks_mhz = (None, None) if state is None else (state.sm_clock_mhz, state.mem_clock_mhz)
    used_b = None if state is None or state.memory_used_b is None else state.memory_used_b
    share = None if state is None or state.gpu_utilization is None else state.gpu_utilization
    return (
        f"{gpu.index} {gpu.identity.name}\n{gpu.identity.uuid}",
        f"{_number(gpu.power_w, '.1f')} of {_number(limit_w, '.0f')}\n"
        f"mean {_number(gpu.mean_power_w, '.1f')}",
        _number(gpu.energy_since_start_j, ".0f"),
        "\n".join(_number(clock, "d") for clock in clocks_mhz),
        _number(None if state is None else state.temperature_c, ".0f"),
        f"{_number(share, '.0%')}\n{_number(None if used_b is None else used_b / _GIB, '.1f')} GiB",
        "\n".join(_notes(gpu, loans)),
    )


def _notes(gpu: LiveReading, loans: Loans) -> Iterator[str]:
    if gpu.throttles is not None:
        held = [THROTTLES[reason] for reason, holds in gpu.throttles.items() if holds]
        yield "not throttled" if not held else f"throttled: {', '.join(held)}"
    if (loan := loans.by_uuid.get(gpu.identity.uuid)) is not None:
        yield f"lent to {loan_in_words(loan)}"
    if (why := loans.unrestored.get(gpu.identity.uuid)) is not None:
        yield f"NOT RESTORED after a loan: {why}"
    if gpu.processes:
        yield f"used by {', '.join(map(_process_in_words, gpu.processes))}"
    yield from dict.fromkeys(gpu.unread.values())


def _process_in_words(process: GpuProcess) -> str:
    # The driver's process ids are the host's; within a container they name others or nobody.
    memory = "" if process.memory_b is None else f" ({process.memory_b / _GIB:.1f} GiB)"
    return f"pid {process.pid}{memory}"


def _number(value: float | None, form: str) -> str:
    return _UNREAD if value is None else format(value, form)


def _caption(view: LiveView) -> str:
    spans_s = [gpu.mean_over_s for gpu in view.gpus if gpu.mean_over_s is not None]
    mean = [f"means over {max(spans_s):.0f} s"] if spans_s else []
    share = [] if view.core_share is None else [f"{view.core_share:.1%} of a core"]
    cost = f"a look takes {1e3 * sum(gpu.cost_s for gpu in view.gpus):.1f} ms"
    guard = [] if view.loans.unread is None else [view.loans.unread]
    return "; ".join([*mean, cost, *share, *guard])
