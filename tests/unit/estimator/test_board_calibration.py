"""A board whose figures are not the catalogue's is met once its own calibration is taken."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from joulelab.core.device import DeviceIdentity
from joulelab.errors import ConfigError
from joulelab.estimator.api import estimate
from joulelab.estimator.calibration.anchors import Pricing
from joulelab.estimator.calibration.fit import board_anchors, calibrated_to
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.predict import totals
from joulelab.hardware.board_facts import BoardFacts, Fact, board_text
from joulelab.hardware.processors import PROCESSORS
from joulelab.hardware.scalars import value_of, with_values

CATALOGUE = PROCESSORS["h200_sxm"]
PLANTED = {
    "timing.memory_efficiency": 0.9,
    "timing.pipe_efficiency.tensor_fp16": 0.88,
    "timing.pipe_efficiency.tensor_bf16": 0.88,
    "power.flop_j.tensor_fp16": 1.2,
    "power.flop_j.tensor_bf16": 1.2,
    "power.constant_w": 1.15,
    "levels.DRAM.byte_j": 1.25,
}
"""Factors by which a board differs."""
FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
NETWORKS = (("resnet50", "fp16", 64), ("bert-base", "fp16", 32), ("vit_l_16", "bf16", 16))
IDENTITY = DeviceIdentity(uuid="U", name="NVIDIA H200", backend="nvml", driver_version="570")


def planted():
    return with_values(
        CATALOGUE, {name: by * value_of(CATALOGUE, name) for name, by in PLANTED.items()}
    )


def facts_of(*facts, identity=IDENTITY):
    return BoardFacts(
        schema=1,
        device=identity,
        host="here",
        measured_at="2026-01-01T00:00:00+00:00",
        joulelab_version="0",
        facts=facts,
    )


def measured(board):
    """Return the facts of a board that takes what ``board`` says it does."""
    names = ["memory_b_per_s", *(f"flop_per_s.{one}" for one in FORMATS)]
    asked = [Fact(name="waiting_power_w", value=1.0), *(Fact(name=n, value=1e12) for n in names)]
    anchors = list(board_anchors(facts_of(*asked)))
    prices = Pricing(anchors).on(board)
    found = [Fact(name="waiting_power_w", value=float(prices.energy_j[0]))]
    for at, name in enumerate(names, start=1):
        what = name.partition(".")[2] or "memory"
        amount = anchors[at].flop or anchors[at].moved_b
        time_s, energy_j = float(prices.time_s[at]), float(prices.energy_j[at])
        found += [
            Fact(name=name, value=amount / time_s),
            Fact(name=f"power_w.{what}", value=energy_j / time_s),
            Fact(name=f"sm_clock_mhz.{what}", value=float(prices.clock_mhz[at])),
        ]
    return facts_of(*found)


def test_networks_on_another_board_are_met_by_its_calibration():
    board = planted()

    found = calibrated_to(CATALOGUE, measured(board))

    before, after = [], []
    for name, precision, batch in NETWORKS:
        model = trace_model(name, batch=batch, precision=precision)
        made = totals(model, [board, CATALOGUE, found.processor], mode="graph")
        for figure in (made.total_latency_s, made.total_energy_j):
            truth, shipped, calibrated = figure[:, 0]
            before.append(abs(shipped / truth - 1))
            after.append(abs(calibrated / truth - 1))
    assert found.rejected == {}
    assert np.mean(before) > 0.06
    assert max(after) < 0.02


def test_a_board_of_another_product_is_refused():
    facts = measured(CATALOGUE)

    with pytest.raises(ConfigError, match="must be of a board of the device"):
        calibrated_to(PROCESSORS["l4"], facts)


def test_a_calibration_of_the_catalogues_own_board_changes_little():
    found = calibrated_to(CATALOGUE, measured(CATALOGUE))

    for name in PLANTED:
        assert value_of(found.processor, name) == pytest.approx(value_of(CATALOGUE, name), rel=0.02)


def test_what_could_not_be_measured_stays_the_catalogues():
    rate = 0.8 * CATALOGUE.memory.bandwidth_b_per_s
    facts = facts_of(
        Fact(name="memory_b_per_s", value=rate), Fact(name="flop_per_s.bf16", reason="held")
    )

    found = calibrated_to(CATALOGUE, facts).processor

    assert value_of(found, "timing.memory_efficiency") == pytest.approx(0.8, rel=0.02)
    assert found.power == CATALOGUE.power
    pipes = found.timing.pipe_efficiency
    assert pipes == CATALOGUE.timing.pipe_efficiency


def test_an_estimate_takes_board_and_host_of_the_file(tmp_path):
    host = (
        *(Fact(name=f"operator_s.{name}", value=40e-6) for name in ("add", "linear", "view")),
        *(Fact(name=f"operator_s.{name}", value=40e-6) for name in ("layer_norm", "conv2d")),
        Fact(name="operator_s.attention", value=40e-6),
        Fact(name="python.module_s", value=1e-6),
    )
    facts = measured(planted())
    path = Path(tmp_path / "board.json")
    path.write_text(board_text(replace(facts, facts=(*facts.facts, *host))))

    usual = estimate("resnet50", device="h200", precision="fp16")
    found = estimate("resnet50", device="h200", precision="fp16", calibration=str(path))

    assert usual.host_range is not None
    assert found.host_range is None
    assert found.latency_s > 2 * usual.latency_s
    assert "this board's own figures" in found.confidence.note
