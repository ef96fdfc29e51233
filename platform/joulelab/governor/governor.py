"""The loop: look, recognise, choose, set; and what to do when anything is unsure."""

from contextlib import suppress
from threading import Lock
from typing import Self

from typing_extensions import override

from joulelab.core.point import OperatingPoint
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.devices.base import Device
from joulelab.devices.control import Control
from joulelab.errors import JouleLabError
from joulelab.governor.account import Account
from joulelab.governor.attention import HeldClock, Looking, Steadiness
from joulelab.governor.choosing import Chooser, outlook_of
from joulelab.governor.comparison import SETTLE_S, Block, Schedule
from joulelab.governor.observing import (
    CAPPED,
    HELD_BACK,
    HOT,
    Expected,
    Observation,
    Observer,
    Tenants,
)
from joulelab.governor.phase import DEFAULT, Phase, Recogniser
from joulelab.governor.strategy import Rules, Strategy
from joulelab.sampling.background import Background

IN_FORCE_S = 0.15
"""Where no clock is set that would show, a point is in force so long after it was set."""
CAPPED_S = 0.25
"""The same where a power limit lowers the clock step by step after it was released."""
_HURRY = 0.5
"""After a window of no phase, as where one ends, or one too short for the driver, the next look
comes after so much of a period."""
FRESH_S = 10.0  # what a known point gives is learned so seldom: a block's length, an estimate


class Governor(Background):
    """Watches a GPU and sets its clock, on the device's own time, until it is stopped.

    ::

        with Governor(device, control, Model(rules), rules) as governor:
            serve(on_token=governor.progress)
        print(governor.schedule.blocks)

    Whatever goes wrong, the driver's own clock is put back: when the limit is passed, when a phase
    is not known, when a clock is refused or not held, and in the end.

    Args:
        control: Who sets its clocks; ``None`` to set nothing and only observe.
        strategy: Who chooses.
        rules: What is asked for, and within what it must stay.
        tenants: Who may be on the GPU; ``None`` for anybody.
        why: Why nothing is set, where there is no ``control``.

    Raises:
        ConfigError: If a fixed clock is not on the device's grid (names its neighbours), or a
            fixed power limit is out of range.
        DeviceUnsupportedError: If the device does not have the knob of a fixed point.
    """

    def __init__(
        self,
        device: Device,
        control: Control | None,
        strategy: Strategy,
        rules: Rules,
        tenants: Tenants | None = None,
        *,
        why: str = "it was asked to observe only",
    ) -> None:
        super().__init__(device, "The governor stopped")
        self.rules = rules
        self.strategy = strategy
        self.device = device
        self.observing_only = "" if control is not None else why
        """Why nothing is set; empty while clocks are."""
        self.schedule: Schedule
        self.account = Account()
        self.num_changes = 0
        self.watched_s = self.throttled_s = 0.0
        self.notes: list[str] = []
        self._control = control
        self._tenants = tenants
        self._observer: Observer
        self._last: Observation
        top_mhz, outlook = outlook_of(device, rules)
        if not outlook.points and not self.observing_only:
            self.observing_only = f"{device.identity().name} has no {rules.knob} that can be set"
        self.recogniser = Recogniser(top_mhz)
        self.chooser = Chooser(rules, strategy, outlook, self.account)
        self._point, self._since_s = DEFAULT, -float("inf")
        self._phase: Phase | None = None
        self._streak = 0
        self._pending: list[tuple[Observation, Block, OperatingPoint]] = []
        self.steadiness, self._held = Steadiness(), HeldClock()
        self._progress, self._last_speed, self._is_brief = 0.0, 1.0, False
        self._turn = Lock()
        self.looking = Looking(rules.period_s, rules.cpu_budget, self._clock.now_s())

    def start(self) -> Self:
        """Look and set until :meth:`stop`."""
        rules = self.rules
        self.schedule = Schedule(
            self._clock.now_s(), block_s=rules.block_s, off_share=rules.off_share, seed=rules.seed
        )
        self._observer = Observer(self.device)
        self.looking.may_be_brief = self._observer.may_be_brief
        self._ticker = self._clock.every(rules.period_s, self._beat)
        return self

    @override
    def stop(self) -> None:
        """Look no more, and put back what was set. Safe to call twice."""
        super().stop()
        self._release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def progress(self, num: float = 1.0) -> None:
        """Report that ``num`` more units of work are done; any thread of the program may.

        With it, slowdown and saving rest on the program's own work, not on counters.
        """
        with self._turn:
            self._progress += num

    def latency(self, latency_s: float) -> None:
        """Report how long a request, or a token, took; any thread of the program may."""
        if self.chooser.latencies is not None:
            self.chooser.latencies.add(latency_s, self._clock.now_s())

    @override
    def _act(self, now_s: float) -> None:
        is_done = False
        try:
            windows = self._observer.look(self._expected(now_s))
            self._is_brief = windows == ()
            for seen in windows or ():
                self._note(seen)
            if windows:
                self._set(self._wanted(windows[-1].stop_s))
            is_behind = windows is None or (windows and windows[-1].stop_s < now_s)
            if (is_behind or len(self._pending) == 1) and self._ticker is not None:
                self._ticker.call_at(now_s + _HURRY * self.looking.period_s)
            is_done = True
        finally:
            if not is_done:  # nobody looks any more
                self._release()

    @override
    def _bill(self, cpu_s: float, _call_s: float) -> None:
        super()._bill(cpu_s, _call_s)
        looking, now_s = self.looking, self._clock.now_s()
        if self._ticker is not None and looking.bill(cpu_s, now_s, is_brief=self._is_brief):
            self._ticker.set_period_s(looking.period_s)
            if looking.note:
                self.notes.append(looking.note)

    def _expected(self, now_s: float) -> Expected | None:
        """Return what a look sees if nothing changed; ``None`` where all is to be read."""
        tally = None if self._phase is None else self._phase.tallies.get(self._point)
        if not self.looking.are_brief or tally is None or not tally.is_known:
            return None
        # A window must not be of two blocks, nor be left out with what settles.
        block_s, begun_s = self.schedule.block(now_s).start_s, self._observer.start_s
        is_whole = begun_s < block_s or begun_s < block_s + SETTLE_S <= now_s
        is_fresh = tally.last_s > min(self._since_s, now_s - FRESH_S)
        if is_whole or not is_fresh or self._wanted(now_s) != self._point:
            return None
        if self._streak and self._last.start_s >= self._since_s:
            return Expected(self._last.power_w, self._last.sm_clock_mhz)
        return Expected(tally.power_w.mean, tally.sm_clock_mhz.mean)

    def _note(self, seen: Observation) -> None:
        """Say which phase a window is of, and put it into all accounts."""
        block = self.schedule.block(seen.start_s)
        with self._turn:
            reported, self._progress = self._progress, 0.0
        block.report(seen, reported)
        phase = self.recogniser.recognise(seen, self._point)
        self._streak = self._streak + 1 if phase is not None and phase is self._phase else 0
        self._phase, self._last = phase, seen
        self._note_tenants(seen.stop_s, block)
        self.steadiness.add(seen, is_known=phase is not None)
        why = self._held.watch(seen, self._point.sm_clock_mhz)
        if why and not self.observing_only:
            self._give_up(why)
        self.watched_s += seen.duration_s
        if seen.reasons & (HELD_BACK if self._point.power_limit_w is None else HOT):
            self.throttled_s += seen.duration_s
        if phase is None:
            self._pending.append((seen, block, self._point))
            return
        self._learn(phase, seen)
        self._settle_accounts(phase, seen, block)

    def _note_tenants(self, now_s: float, block: Block) -> None:
        if self._tenants is not None and self._tenants.look(now_s):
            pids = ", ".join(map(str, sorted(self._tenants.foreign)))
            self.notes.append(
                f"Another process came to the GPU (pid {pids}). While it is there the driver's "
                "own clock is in force, and nothing is counted: counters show both programs."
            )
        if self.has_company:
            block.spoilt = block.spoilt or "another process was on the GPU"

    @property
    def has_company(self) -> bool:
        """Whether somebody else is on the GPU."""
        return self._tenants is not None and bool(self._tenants.foreign)

    def _learn(self, phase: Phase, seen: Observation) -> None:
        phase.num_windows += 1
        phase.duration_s += seen.duration_s
        self.chooser.transitions.note(phase)
        is_in_force = self._since_s <= seen.start_s and self._is_held(seen)
        if self._streak and is_in_force:
            signature = self.recogniser.signature(seen)
            phase.add(seen, signature, self._point)
            if self._point == DEFAULT:
                phase.is_capped = bool(seen.reasons & CAPPED)
            speed = phase.relative_speed(signature)
            if speed is not None:
                self.chooser.note(phase, self._point, speed, seen.power_w)

    def _is_held(self, seen: Observation) -> bool:
        """Whether a window shows what was set, and so tells of that point."""
        wanted_mhz = self._point.sm_clock_mhz
        if wanted_mhz is None:  # whatever its clock: the one before may still be in force
            is_capped = bool(seen.reasons & CAPPED)
            return self._since_s + (CAPPED_S if is_capped else IN_FORCE_S) <= seen.start_s
        return seen.is_settled and abs(seen.sm_clock_mhz - wanted_mhz) <= CLOCK_TOLERANCE_MHZ

    def _settle_accounts(self, phase: Phase, seen: Observation, block: Block) -> None:
        """Count the window, and the mixed ones before it as if they had gone as it did."""
        speed = phase.relative_speed(self.recogniser.signature(seen))
        chosen = self.chooser.chosen.get(phase.number, self._point)
        for one, its_block, point in (*self._pending, (seen, block, self._point)):
            share = speed
            if one is not seen and speed is not None:
                share = self.chooser.expected_speed(phase, one.sm_clock_mhz, now=speed)
            if share is not None and self._pending and one is self._pending[0][0]:
                share = (share + self._last_speed) / 2  # half of it was still the phase before
            its_block.add(one, phase, share)
            if its_block.is_on:
                work = 1.0 if share is None else min(1.0, share)
                is_own = one is seen and point == chosen
                self.account.add(one, work * one.duration_s, phase.number if is_own else None)
        self._pending.clear()
        self._last_speed = 1.0 if speed is None else min(1.0, speed)

    def _wanted(self, now_s: float) -> OperatingPoint:
        """Return the point for now; the driver's own in its blocks, and while all is unsure."""
        block = self.schedule.block(now_s)
        if not block.is_on or self.observing_only:
            return DEFAULT
        if (known := self.strategy.foresee()) is not None:
            return known
        if self._phase is None:
            return self.chooser.anticipated() if len(self._pending) == 1 else DEFAULT
        if self.steadiness.is_unsteady or self.has_company:
            return DEFAULT
        return self.chooser.choose(self._phase, self.recogniser.phases, now_s)

    def _set(self, point: OperatingPoint) -> None:
        if self._control is None or self.observing_only or point == self._point:
            return
        try:
            self._control.require_held()
            if point == DEFAULT:
                self._control.reset()
            else:
                self._control.apply(point)
        except JouleLabError as error:
            self._give_up(str(error))
            return
        self._point, self._since_s = point, self._clock.now_s()
        self.num_changes += 1

    def _give_up(self, why: str) -> None:
        """Set nothing from now on; what was seen since the last look is not believed."""
        self.observing_only = why
        self.schedule.blocks[-1].spoilt = why
        self._release()

    def _release(self) -> None:
        """Put back what was set; a guard does so by itself where this cannot."""
        if self._control is not None and self._point != DEFAULT:
            self._point, self._since_s = DEFAULT, self._clock.now_s()
            with suppress(JouleLabError):
                self._control.reset()
