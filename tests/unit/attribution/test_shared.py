"""Attributions of a program that two simulated GPUs share, where every kernel is planted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from planted_attributions import PAIR_GPU, PAIR_KNOBS, attribute_pair

from joulelab.analysis.attributed.numbers import ALL_GPUS, content, frame
from joulelab.analysis.attributed.page import page
from joulelab.analysis.attributed.table import text
from joulelab.attribution.components import component_of
from joulelab.attribution.metered import by_board
from joulelab.attribution.reconciled import with_waiting
from joulelab.attribution.simulated_source import SimulatedSource
from joulelab.attribution.traced import traced_program
from joulelab.cli.main import main
from joulelab.errors import ConfigError, MeasurementError
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return attribute_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def phases(shared):
    return shared[0].phases


def planted_j(found, boards, phase):
    """What the components of a phase truly take on both boards."""
    workload = WORKLOADS["llama"].from_knobs(PAIR_KNOBS)
    source = SimulatedSource(GPUS[PAIR_GPU], traced_program(workload), 2)
    true_j = {}
    readings = by_board(found.measured, 2)
    for part, read, board in zip(phase.boards, readings, boards, strict=True):
        of_calls = source.planted_j(part.profile, read[phase.phase], board)
        for call, joules in zip(part.profile.calls, of_calls.tolist(), strict=True):
            name = component_of(call.operator)
            true_j[name] = true_j.get(name, 0.0) + joules
    return true_j


def test_components_of_both_boards_are_those_that_were_planted(shared, phases):
    found, boards = shared
    for phase in phases:
        true_j = planted_j(found, boards, phase)
        shares = {share.name: share for share in phase.by_component}
        off_j = {name: shares[name].energy_j - joules for name, joules in true_j.items()}
        large = [name for name in true_j if true_j[name] > 0.01 * phase.energy_j]

        assert sum(map(abs, off_j.values())) < 0.05 * sum(true_j.values())
        assert np.mean([abs(off_j[n]) < 2.6 * shares[n].energy_u_j for n in large]) >= 0.8


def test_the_board_with_the_higher_clock_waits_and_the_other_does_not(phases):
    fast, slow = phases[0].boards

    waiting = {share.name: share for share in fast.by_component}["waiting"]
    assert waiting.time_s > 0.02 * fast.time_s
    assert "waiting" not in {share.name for share in slow.by_component}
    assert fast.time_s == slow.time_s


def test_communication_takes_the_same_time_on_both(phases):
    for phase in phases:
        times_s = [
            share.time_s
            for board in phase.boards
            for share in board.by_component
            if share.name == "communication"
        ]
        assert times_s[0] == pytest.approx(times_s[1])
        assert times_s[0] > 0


def test_links_that_stay_awake_are_measured_by_sums_far_apart(shared, phases):
    gains = [board.gain for board in shared[1]]
    for phase in phases:
        for gain, board in zip(gains, phase.boards, strict=True):
            (links,) = [share for share in board.by_component if share.name == "links awake"]
            planted_j = gain * GPUS[PAIR_GPU].link.awake_w * phase.time_s

            assert links.energy_j == pytest.approx(planted_j, rel=0.1)
            assert abs(links.energy_j - planted_j) < 2.6 * links.energy_u_j


def test_boards_sum_to_the_whole_and_each_closes(phases):
    for phase in phases:
        assert sum(board.energy_j for board in phase.boards) == pytest.approx(phase.energy_j)
        for one in (phase, *phase.boards):
            assert abs(one.closure) < 0.05
            assert sum(share.energy_j for share in one.by_layer) == pytest.approx(one.energy_j)
        prior_j = sum((1 + board.closure) * board.energy_j for board in phase.boards)
        assert phase.closure == pytest.approx(prior_j / phase.energy_j - 1)


def test_a_board_that_contradicts_its_meter_is_not_reconciled_in_the_whole(phases):
    lead, other = phases[0].boards
    off = type(phases[0]).of([lead, replace(other, deviation=9.0)])

    assert phases[0].is_reconciled
    assert not off.is_reconciled


def test_each_board_stands_beside_the_whole(shared):
    found = shared[0]
    rows = frame(found).to_pandas()
    told = content(found)["phases"][0]

    assert "GPU 0" in text(found)
    assert "on each board" in text(found)
    assert "</html>" in page(found)
    assert set(rows["gpu"]) == {ALL_GPUS, *(gpu.uuid for gpu in found.boards)}
    assert [board["uuid"] for board in told["boards"]] == [gpu.uuid for gpu in found.boards]
    components = rows[(rows["phase"] == "prefill") & (rows["level"] == "component")]
    whole, apart = (
        components[components["gpu"] == ALL_GPUS],
        components[components["gpu"] != ALL_GPUS],
    )
    assert apart["energy_per_unit_j"].sum() == pytest.approx(whole["energy_per_unit_j"].sum())


def test_the_estimate_of_the_whole_is_that_of_both_boards(phases):
    for share in phases[0].by_component:
        of_boards = [
            own.estimated_j
            for board in phases[0].boards
            for own in board.by_component
            if own.name == share.name and own.estimated_j is not None
        ]
        assert share.estimated_j == (pytest.approx(sum(of_boards)) if of_boards else None)


def test_copies_are_not_attributed(tmp_path):
    with pytest.raises(ConfigError, match="--tensor-parallel 2"):
        attribute_pair(tmp_path, knobs={**PAIR_KNOBS, "tensor_parallel": 1})


WORDS = ["attribute", "--device", "simulated", "--gpu", PAIR_GPU, "--observe-only", "--json"]
TINY = ["llama", "--model", "tiny", "--new-tokens", "2", "--tensor-parallel", "2"]


def test_the_command_attributes_two_gpus_together(tmp_path, capsys):
    options = ["--store", str(tmp_path), "--method", "classes", "--gpus-per-trial", "2"]

    assert main([*WORDS, *options, *TINY]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(phase["boards"]) for phase in found["phases"]] == [2, 2]
    assert "communication" in {part["name"] for part in found["parts"]}


def test_gpus_that_are_named_one_by_one_are_refused(tmp_path, capsys):
    options = ["--store", str(tmp_path), "--gpus-per-trial", "2", "--uuid", "GPU-1"]

    assert main([*WORDS, *options, *TINY]) == 2
    assert "Leave --uuid out" in capsys.readouterr().err


def test_the_cheap_method_takes_what_links_draw_from_the_catalogue(tmp_path):
    found, _ = attribute_pair(tmp_path, "classes", {**PAIR_KNOBS, "model": "tiny"})

    for phase in found.phases:
        (links,) = [share for share in phase.by_component if share.name == "links awake"]
        expected_j = 2 * GPUS[PAIR_GPU].link.awake_w * phase.time_s
        assert links.energy_j == pytest.approx(expected_j, rel=0.3)
        assert links.time_s is None


def test_what_ranks_waited_is_never_taken_for_nothing(shared):
    found, _ = shared
    (name, read), *_ = found.measured.items()
    ranks = [(part.profile,) for part in found.phase(name).boards]

    with pytest.raises(MeasurementError, match=r"has no gpu0\.waiting_per_unit_s, gpu1"):
        with_waiting(ranks, {name: replace(read, figures=())})
