"""Who may borrow from a guard, and turn which knobs how far. Giving back needs no leave."""

import grp
import os
import pwd
import stat
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from joulelab.core.bounds import MOST_MHZ, MOST_W, check_positive
from joulelab.core.codec import decoded
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, GuardError, NotAllowedError, TrackingError
from joulelab.guard.connection import Peer

Range = tuple[float, float]
"""Lowest and highest value."""

EVERYBODY = "*"
_KNOBS = {"sm_clock_mhz": MOST_MHZ, "mem_clock_mhz": MOST_MHZ, "power_limit_w": MOST_W}
_MOST_REQUESTS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What some users may set; a knob without a range they may not.

    Attributes:
        users: Names or ids of users; ``"*"`` is everybody who may connect.
        groups: Names or ids of groups.
        sm_clock_mhz: Lowest and highest SM clock, in MHz.
        mem_clock_mhz: The same of the memory clock, in MHz.
        power_limit_w: The same of the power limit, in watts.
    """

    users: tuple[str | int, ...] = ()
    groups: tuple[str | int, ...] = ()
    sm_clock_mhz: Range | None = None
    mem_clock_mhz: Range | None = None
    power_limit_w: Range | None = None

    def __post_init__(self) -> None:
        if not self.users and not self.groups:
            raise ConfigError(f'a rule must name users or groups; users = ["{EVERYBODY}"] is all.')
        for knob, most in _KNOBS.items():
            lowest, highest = getattr(self, knob) or (1.0, 1.0)
            if not 0 < lowest <= highest <= most:
                raise ConfigError(
                    f"{knob} must be [lowest, highest], above 0 and at most {most:g}, got "
                    f"[{lowest:g}, {highest:g}]."
                )

    def allows(self, point: OperatingPoint) -> bool:
        """Whether every knob that ``point`` turns is within its range."""
        asked = {knob: value for knob in _KNOBS if (value := getattr(point, knob)) is not None}
        ranges = {knob: getattr(self, knob) for knob in asked}
        return all(r is not None and r[0] <= asked[knob] <= r[1] for knob, r in ranges.items())

    @property
    def words(self) -> str:
        """What it allows."""
        ranges = {knob: getattr(self, knob) for knob in _KNOBS}
        given = [f"{knob} {r[0]:g} to {r[1]:g}" for knob, r in ranges.items() if r is not None]
        return ", ".join(given) or "nothing but the driver's default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a policy file holds; by default all who may connect may borrow, and set anything.

    Attributes:
        allow: The rules. One of those that are for a user must allow all of a point.
        requests_per_s: Requests of one user per second in the long run; ``None`` for any number.
            Those that renew, restore or give back are not counted.
        burst: How many of them may come at once.
        audit_file: Where :mod:`joulelab.guard.audit` writes, besides the guard's output.
    """

    allow: tuple[Rule, ...] | None = None
    requests_per_s: float | None = None
    burst: int = 200
    audit_file: str | None = None

    def __post_init__(self) -> None:
        check_positive("requests_per_s", self.requests_per_s, _MOST_REQUESTS)
        check_positive("burst", self.burst, _MOST_REQUESTS)
        if self.audit_file is not None and not Path(self.audit_file).is_absolute():
            raise ConfigError(f"audit_file must be an absolute path, got {self.audit_file!r}.")


def read_policy(path: Path) -> Policy:
    """Read a policy from a TOML file that its user or root alone can write.

    Raises ConfigError if it cannot be read, others can write it, or it is no policy; says where.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (0, os.getuid()) or stat.S_IMODE(status.st_mode) & 0o022:
                raise ConfigError(
                    f"{path} must belong to root or uid {os.getuid()} and be writable by no other, "
                    f"but belongs to uid {status.st_uid} (mode {stat.S_IMODE(status.st_mode):o})."
                )
            return decoded(Policy, tomllib.load(file), "policy")
    except (OSError, tomllib.TOMLDecodeError, TrackingError) as error:
        raise ConfigError(f"The policy of a clock guard at {path}: {error}") from error


class Gate:
    """Asks a policy whether a process may do what it asks for.

    Args:
        policy: The policy.
        source: Where it is, for who is refused.
        now_s: Seconds of a clock that goes on.

    Raises:
        ConfigError: If this machine has no such user or group as a rule names.
    """

    def __init__(
        self, policy: Policy, source: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy, self._source, self._now_s = policy, source, now_s
        self._rules = [
            (
                rule,
                _ids(rule.users, lambda name: pwd.getpwnam(name).pw_uid, "user"),
                _ids(rule.groups, lambda name: grp.getgrnam(name).gr_gid, "group"),
            )
            for rule in policy.allow or ()
        ]
        self._left: dict[int, tuple[float, float]] = {}

    def require_may_ask(self, peer: Peer) -> None:
        """Count a request; GuardError if the user has asked too often."""
        pace_per_s, burst = self._policy.requests_per_s, self._policy.burst
        if pace_per_s is None:
            return
        now_s = self._now_s()
        left, since_s = self._left.get(peer.uid, (float(burst), now_s))
        left = min(burst, left + (now_s - since_s) * pace_per_s)
        self._left[peer.uid] = (left - 1 if left >= 1 else left, now_s)
        if left < 1:
            raise GuardError(
                f"uid {peer.uid} asks too often: the policy {self._source} has {burst} requests at "
                f"once and {pace_per_s:g} per second; wait a moment."
            )

    def require_may_borrow(self, peer: Peer, uuid: str) -> None:
        """Refuse who is in no rule.

        Raises GuardError, which says who may not borrow what.
        """
        if self._policy.allow is not None and not self._rules_of(peer):
            raise GuardError(
                f"uid {peer.uid} (pid {peer.pid}) may not borrow {uuid}: the policy "
                f"{self._source} names neither that user nor a group of theirs; ask its "
                "administrator, or measure with --observe-only."
            )

    def require_may_set(self, peer: Peer, uuid: str, point: OperatingPoint) -> None:
        """Refuse a point that no rule of the user allows.

        Raises NotAllowedError, which says who asked for what, and what is allowed.
        """
        rules = self._rules_of(peer)
        if self._policy.allow is None or any(rule.allows(point) for rule in rules):
            return
        raise NotAllowedError(
            f"uid {peer.uid} (pid {peer.pid}) asked for {point.label} on {uuid}, but the policy "
            f"{self._source} allows {'; or '.join(rule.words for rule in rules) or 'nothing'}. "
            "Choose a point within that, or ask its administrator."
        )

    def _rules_of(self, peer: Peer) -> list[Rule]:
        return [
            rule
            for rule, uids, gids in self._rules
            if EVERYBODY in rule.users or peer.uid in uids or gids & peer.gids
        ]


def _ids(names: Sequence[str | int], id_of: Callable[[str], int], kind: str) -> frozenset[int]:
    """Look the names up once: a directory service that is slow must not keep borrowers waiting."""
    found = set()
    for name in names:
        try:
            if name != EVERYBODY:
                found.add(id_of(name) if isinstance(name, str) else name)
        except KeyError:
            raise ConfigError(
                f"allow must name users and groups of this machine, which has no {kind} {name!r}; "
                "make it, or give its number."
            ) from None
    return frozenset(found)
