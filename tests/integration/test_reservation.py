"""Studies that run at the same time, each on GPUs that no other one has."""

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from actor_fixtures import QUICK
from alone import lent_elsewhere
from waiting import until

import joulelab
from joulelab.devices.simulated import fleet
from joulelab.study.worker import WorkerSettings
from joulelab.tracking.tracker_process import TrackerLink
from joulelab_actors import reservation
from joulelab_actors.gpu_actor import Member
from joulelab_actors.placement import simulated_sites
from joulelab_actors.reservation import Keeper, reserved

ROOT = Path(__file__).parents[2]
CLOCKS_MHZ = (1200, 990, 810)
OTHER_DRIVER = """
import sys
from joulelab_actors.placement import simulated_sites
from joulelab_actors.reservation import Keeper
from joulelab_actors.session import connected
with connected():
    sites = simulated_sites("a40", 2, sys.argv[1])
    print([site.uuid for site in Keeper("theirs").keep(sites, (), 2, 2)], flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def make_lab(cluster, tmp_path, guard_socket, monkeypatch):
    """Return a laboratory on a driver that has four GPUs, of a kind that no other test uses."""
    from joulelab_actors.laboratory import Laboratory

    monkeypatch.setenv("RAY_ADDRESS", cluster)
    store = tmp_path / "driver"
    fleet("a40", 4, str(store))

    def make(**changes):
        usual = {
            "gpu": "a40",
            "num_gpus": 2,
            "store": store,
            "results_dir": tmp_path / "results",
            "guard_socket": guard_socket,
            "procedure": QUICK,
            "tracking_uri": "none",
        }
        return Laboratory(**usual | changes)

    return make


def uuids(sites):
    return [site.uuid for site in sites]


def kind(*indices):
    return [f"SIM-a40-{index}" for index in indices]


def test_a_second_study_takes_the_gpus_that_the_first_left(make_lab, capsys):
    """It chose the first two of the cluster, waited for 15 s, and ended without a GPU."""
    with make_lab(study="first").open() as first, make_lab(study="second").open() as second:
        chosen = uuids(first), uuids(second)

    assert [set(each) for each in chosen] == [set(kind(0, 1)), set(kind(2, 3))]
    assert "Waiting" not in capsys.readouterr().err


def test_gpus_are_waited_for_and_it_is_reported_who_has_them(make_lab, monkeypatch, capsys):
    monkeypatch.setattr(reservation, "_QUIET_S", 0.0)
    with ExitStack() as stack:
        stack.enter_context(make_lab(num_gpus=3, study="first").open())
        ended = threading.Timer(3.0, stack.pop_all().close)
        ended.start()

        with make_lab(study="second").open() as second:
            chosen = uuids(second)

    ended.join()
    assert set(chosen) == set(kind(0, 1))
    shown = capsys.readouterr().err
    assert shown.count("Waiting for GPUs: study first (pid") == 1
    assert "has SIM-a40-0 on" in shown


def test_gpus_are_let_go_before_the_rest_is_delivered(make_lab, store_uri, monkeypatch):
    """Others waited for GPUs that were idle, until a slow store had all of the study."""
    kept, lab = [], make_lab(gpus_per_trial=2, tracking_uri=store_uri)

    def looking(function):
        def called(*given):
            kept.append([uuid for uuid in kind(0, 1, 2, 3) if reservation._entry_of(uuid)])
            return function(*given)

        return called

    monkeypatch.setattr(type(lab), "pool", looking(type(lab).pool))
    monkeypatch.setattr(TrackerLink, "finish", looking(TrackerLink.finish))

    found = joulelab.measure("gemm", lab=lab)

    assert kept == [kind(0, 1), []]
    assert found.summary.delivery.num_delivered == 1


def test_a_gpu_on_loan_comes_after_those_that_are_not(make_lab, guard_socket, tmp_path):
    with (
        lent_elsewhere("SIM-a40-0", tmp_path / "driver", guard_socket),
        make_lab().open() as sites,
    ):
        assert set(uuids(sites)) == set(kind(1, 2))


def test_gpus_without_a_number_are_all_that_nobody_else_has(make_lab, monkeypatch, capsys):
    monkeypatch.setattr(reservation, "NAME_TIMEOUT_S", 1.0)
    sites = simulated_sites("a40", 4, str(make_lab().store))
    keeper = Keeper("theirs")
    keeper.keep(sites, (), 1, 1)

    options = {"study": "mine", "guard_socket": None, "report": print}
    with reserved(sites, None, **options) as chosen:
        assert len(chosen) == 3
    keeper.release()

    assert f"Left out: study theirs (pid {os.getpid()}" in capsys.readouterr().out
    with reserved(sites, None, **options) as chosen:
        assert len(chosen) == 4


def test_of_two_studies_that_saw_the_same_gpus_free_each_takes_others(make_lab):
    """Both chose the first two, and one ended without a GPU."""
    sites = simulated_sites("a40", 4, str(make_lab().store))
    first, second, third = Keeper("first"), Keeper("second"), Keeper("third")

    chosen = [keeper.keep(sites, (), 2, 2) for keeper in (first, second, third)]

    assert [len(each) for each in chosen] == [2, 2, 0]
    assert not set(uuids(chosen[0])) & set(uuids(chosen[1]))
    first.release()
    assert third.keep(sites, (), 2, 2) == chosen[0]
    second.release()
    third.release()


def started(command, **variables):
    paths = os.pathsep.join(str(ROOT / part) for part in ("platform", "actors"))
    return subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": paths} | variables, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def test_what_a_driver_kept_is_free_again_once_it_was_killed(make_lab, cluster, tmp_path):
    command = [sys.executable, "-c", OTHER_DRIVER, str(tmp_path / "driver")]
    driver = started(command, RAY_ADDRESS=cluster)
    assert "SIM-a40-0" in driver.stdout.readline()
    with make_lab().open() as sites:
        beside = uuids(sites)

    driver.kill()
    driver.communicate()

    with make_lab(num_gpus=4).open() as sites:
        assert set(uuids(sites)) == set(kind(0, 1, 2, 3))
    assert set(beside) == set(kind(2, 3))


def test_a_gpu_that_has_an_actor_is_another_studys_even_if_nobody_keeps_it(make_lab, tmp_path):
    with make_lab(num_gpus=1).open() as [site]:
        pass
    member = Member(site, WorkerSettings(results_dir=tmp_path / "other", procedure=QUICK))
    try:
        until(lambda: reservation.held_by_others([site], None) == {site.uuid: "another study"})

        with make_lab(num_gpus=2).open() as sites:
            assert set(uuids(sites)) == set(kind(1, 2))
    finally:
        member.kill()


def test_a_sweep_runs_beside_a_study_that_has_other_gpus(make_lab):
    with make_lab(study="first").open():
        found = joulelab.sweep(
            "stream", clocks_mhz=CLOCKS_MHZ, repeats=2, lab=make_lab(study="second")
        )

    assert found.summary.complete
    assert not found.summary.quarantined
    assert {m.device.uuid for m in found.measurements} == set(kind(2, 3))
