"""A sweep over GPUs of several products, in this process."""

from collections import Counter

import pytest

import joulelab
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS

KINDS = ("a100_sxm", "h100_sxm")
A100, H100 = (GPUS[key].product_names[0] for key in KINDS)
CLOCKS_MHZ = (1200, 990, 810)


@pytest.fixture
def mixed(make_lab):
    return lambda **changes: make_lab(**{"gpu": KINDS, "study": "mixed"} | changes)


def measured_on(found):
    """Count the trials that each product measured of the plan, sentinels apart."""
    return Counter(m.device.name for m in found.measurements if not m.sentinel)


def clocks_mhz(found, product):
    return {
        m.configuration.point.sm_clock_mhz for m in found.measurements if m.device.name == product
    }


@pytest.fixture(scope="module")
def found(make_shared_lab):
    """A sweep over a GPU of each product."""
    return joulelab.sweep("stream", every=40, repeats=1, lab=make_shared_lab(gpu=KINDS))


def test_every_product_measures_the_whole_plan_on_its_own_clocks_and_boards(found):
    grids = {spec.product_names[0]: spec.study_clocks_mhz for spec in map(GPUS.get, KINDS)}
    for product, grid in grids.items():
        assert clocks_mhz(found, product) == {None, *grid[::40], grid[-1]}
    assert clocks_mhz(found, A100) != clocks_mhz(found, H100)
    assert {m.device.name for m in found.measurements if m.sentinel} == {A100, H100}
    assert len({m.trial for m in found.measurements}) == len(found.measurements)
    assert found.summary.complete


def test_several_gpus_of_each_product_share_its_plan_and_each_has_its_sentinel(mixed):
    found = joulelab.sweep("stream", clocks_mhz=CLOCKS_MHZ, repeats=2, lab=mixed(num_gpus=2))

    assert measured_on(found) == {A100: 8, H100: 8}
    boards = {m.device.uuid for m in found.measurements}
    assert len(boards) == 4
    assert boards == {m.device.uuid for m in found.measurements if m.sentinel}


def test_products_are_compared_each_with_its_own_default_alone(found):
    assert [phase.device_name for phase in found.result.phases] == [A100, H100]
    for phase in found.result.phases:
        assert {board.name for board in phase.boards} == {phase.device_name}
        assert phase.default.figures.saving.value == pytest.approx(0.0)


def test_a_study_of_one_product_goes_on_on_another_and_on_both(mixed):
    """What the first product had measured counted as done for every other."""
    asked = {"clocks_mhz": CLOCKS_MHZ, "repeats": 1}

    runs = [
        joulelab.sweep("stream", **asked, lab=mixed(gpu=gpu))
        for gpu in ("a100_sxm", KINDS, KINDS, "h100_sxm")
    ]

    first, both, again, other = (run.summary for run in runs)
    assert (first.num_skipped, first.num_valid) == (0, 5)
    assert (both.num_skipped, both.num_valid) == (5, 5)
    assert (again.num_skipped, again.num_valid) == (10, 0)
    assert (other.num_skipped, other.num_valid) == (5, 0)
    assert measured_on(runs[-1]) == {A100: 4, H100: 4}


def test_a_product_can_be_chosen_among_those_that_are_there(mixed):
    lab = mixed(gpu_product="A100")

    found = joulelab.sweep("stream", clocks_mhz=CLOCKS_MHZ, repeats=1, lab=lab)

    assert {m.device.name for m in found.measurements} == {A100}
    with pytest.raises(ConfigError, match=r"there are 1 NVIDIA A100.*1 NVIDIA H100"):
        joulelab.sweep("stream", lab=mixed(gpu_product="b200"))


def test_a_clock_that_one_product_lacks_is_refused_with_its_name(mixed):
    only = max(set(GPUS["h100_sxm"].sm_clocks_mhz) - set(GPUS["a100_sxm"].sm_clocks_mhz))

    with pytest.raises(ConfigError, match=f"On {A100} .*the nearest"):
        joulelab.sweep("stream", clocks_mhz=[only], lab=mixed())


@pytest.mark.parametrize(
    "study",
    [
        lambda lab: joulelab.measure("stream", lab=lab),
        lambda lab: joulelab.search("stream", {"sm_clock_mhz": "all"}, lab=lab),
    ],
)
def test_what_compares_across_gpus_is_refused_and_told_how_to_choose_a_product(study, mixed):
    with pytest.raises(ConfigError, match="--gpu-product"):
        study(mixed())
