"""Checks whose outcome is one line: what was found, whether that is well, and what to do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from joulelab.errors import JouleLabError

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the preflight: "fail" means wrong results, "warn" that they could be better."""

    what: str
    status: Status
    found: str
    advice: str = ""


CheckOutcome = tuple[Status, str, str]
"""Status, what was found, and advice; see :class:`Check`."""


def run_checks(checks: Mapping[str, Callable[[], CheckOutcome]]) -> Iterator[Check]:
    """Run ``checks``, by what they look at; one that cannot be made fails and the rest go on."""
    for what, check in checks.items():
        try:
            status, found, advice = check()
        except JouleLabError as error:
            status, found, advice = "fail", str(error), "Mend this first."
        yield Check(what=what, status=status, found=found, advice=advice)
