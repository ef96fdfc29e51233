"""Kernels that could not be measured alone are named with the reason."""

from dataclasses import replace

import pytest
from planted_attributions import attribute

from joulelab.analysis.attributed.table import text
from joulelab.attribution.replayer import Replayer, Replays
from joulelab.core.measurement import Finding

HOT = Finding(reason="throttled", detail="The board was too hot for 30% of the time.")


def throttled(read):
    return replace(read, findings=(HOT,))


@pytest.fixture
def throttling(monkeypatch):
    """The board is too hot while the first four kernels are replayed."""
    measured = Replayer._measured

    def hot(self, settings, point, most):
        found = measured(self, settings, point, most)
        return found | {name: throttled(found[name]) for name in list(found)[:4]}

    monkeypatch.setattr(Replayer, "_measured", hot)


def test_a_board_that_throttles_while_kernels_are_replayed_is_named(throttling, tmp_path):
    found, _ = attribute(tmp_path)
    hot = list(found.replays)[:4]

    note = (
        f"4 of {len(found.replays)} kernels could not be measured alone and are priced by their "
        f"like ({', '.join(hot[:3])}): {HOT.reason}: {HOT.detail}"
    )
    assert note in found.notes
    assert note in text(found)
    supposed = {one.name for phase in found.phases for one in phase.by_kernel if one.is_supposed}
    assert set(hot) <= supposed


def test_a_kernel_that_is_known_with_pauses_is_not_missing(replayed):
    name, read = next(iter(replayed[0].replays.items()))

    assert Replays(measured={name: throttled(read)}).refused()
    assert not Replays(measured={name: throttled(read)}, paced={name: read}).refused()
    assert not Replays(measured={name: read}).refused()
