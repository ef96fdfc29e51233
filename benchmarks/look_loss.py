"""Work that is lost while a device is looked at, found within one run of the loop.

Comparing a watched window with an unwatched one needs hundreds of pairs: from second to second
the rate of an eager loop changes by several percent on a shared host. Around each look it hardly
changes, so the work done during a look is compared with that done just before and after it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulelab.core.procedure import Procedure
from joulelab.devices.base import Device
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.tick_tracker import TickTracker
from joulelab.sampling.window_loop import TimeSpan, WindowLoop

WINDOW_S = 1.0
LEAD_S, TAIL_S = 0.002, 0.008
"""How long before and after a look's driver calls it may still be felt: threads wake and wait."""

Array = NDArray[np.float64]
Span = tuple[float, float]


def watched_loop(
    device: Device, unit: Callable[[], float], watch_s: float, tracker: TickTracker
) -> tuple[list[Span], list[TimeSpan]]:
    """Run a loop as it is run when it is measured.

    Returns:
        When the driver was asked, and the units of the loop, both in seconds of the same clock.
    """
    calls: list[Span] = []
    restore = noted(device, calls)
    try:
        with Instruments(device, Procedure(), tracker=tracker) as instruments:
            loop = WindowLoop(device.clock, unit, instruments, instruments.check)
            loop.windows(max(1, round(watch_s / WINDOW_S)), WINDOW_S)
    finally:
        restore()
    return calls, loop.units


def noted(device: Device, calls: list[Span]) -> Callable[[], None]:
    """Have each read of ``device`` note when it ran; returns what undoes that."""
    names = [name for name in dir(type(device)) if name.startswith("read_")]
    for name in names:
        setattr(device, name, _noting(getattr(device, name), calls, device))

    def restore() -> None:
        for name in names:
            delattr(device, name)

    return restore


def _noting(read: Callable[..., Any], calls: list[Span], device: Device) -> Callable[..., Any]:
    def noting(*arguments: Any) -> Any:
        begun_s = device.clock.now_s()
        try:
            return read(*arguments)
        finally:
            calls.append((begun_s, device.clock.now_s()))

    return noting


def looks(calls: Sequence[Span]) -> Array:
    """Return the spans in which calls are felt, overlapping ones joined, shape ``(looks, 2)``."""
    joined: list[list[float]] = []
    for begun_s, ended_s in sorted(calls):
        if joined and begun_s - LEAD_S <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], ended_s + TAIL_S)
        else:
            joined.append([begun_s - LEAD_S, ended_s + TAIL_S])
    return np.array(joined, dtype=np.float64).reshape(-1, 2)


def loss_of_work(calls: Sequence[Span], units: Sequence[TimeSpan]) -> tuple[float, float]:
    """Compare the work done during looks with that done beside them.

    A look counts if half its length before it and after it are free of other looks; those that
    do not are taken to cost as much per second as those that do.

    Returns:
        Share of all work that is lost to looks, and its standard error.

    Raises:
        ValueError: If fewer than ten looks can be compared.
    """
    spans = looks(calls)
    stops_s = np.array([unit.stop_s for unit in units])
    done = np.cumsum([unit.work for unit in units])

    def work(from_s: Array, to_s: Array) -> Array:
        return np.asarray(np.interp(to_s, stops_s, done) - np.interp(from_s, stops_s, done))

    inside = spans[_is_comparable(spans, stops_s)]
    if len(inside) < 10:
        raise ValueError(f"Ten looks to compare are required, {len(inside)} found: watch longer.")
    begins_s, ends_s = inside[:, 0], inside[:, 1]
    half_s = (ends_s - begins_s) / 2
    beside = work(begins_s - half_s, begins_s) + work(ends_s, ends_s + half_s)
    lost = beside - work(begins_s, ends_s)
    covered = np.sum(spans[:, 1] - spans[:, 0]) / np.sum(ends_s - begins_s)
    total = done[-1] - done[0]
    spread = float(np.std(lost, ddof=1)) * len(lost) ** 0.5
    return float(np.sum(lost) * covered / total), spread * float(covered / total)


def _is_comparable(spans: Array, stops_s: Array) -> NDArray[np.bool_]:
    half_s = (spans[:, 1] - spans[:, 0]) / 2
    free_from_s = np.concatenate([stops_s[:1], spans[:-1, 1]])
    free_to_s = np.concatenate([spans[1:, 0], stops_s[-1:]])
    before = spans[:, 0] - half_s >= free_from_s
    return np.asarray(before & (spans[:, 1] + half_s <= free_to_s))
