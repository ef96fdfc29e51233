"""The page of a study that goes on, made of what is in its folder by then."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from html import unescape

import pytest
from actor_fixtures import QUICK

import joulelab
from joulelab.analysis import search_result
from joulelab.analysis.knob_grid import ASKED, Axis, KnobLog, KnobStudy, knob_grid
from joulelab.core.plan import plan_sweep
from joulelab.errors import TrackingError
from joulelab.study.conclude import live_page, report_anew, search_so_far
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import RunningTrial, Trouble, read_state, write_state
from joulelab.tracking.study_lock import StudyLock, holder_of

CLOCKS_MHZ = [1095, 990, 810, 705]
KILLED_STUDY = """
import sys, time
from pathlib import Path
from joulelab.tracking.study_lock import StudyLock
with StudyLock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def text_of(folder):
    return unescape(live_page(folder))


@pytest.fixture(scope="module")
def search(tmp_path_factory, guard_socket):
    """A search that has ended."""
    folder = tmp_path_factory.mktemp("search")
    lab = joulelab.Lab(
        device="simulated",
        gpu="h200_sxm",
        num_gpus=2,
        store=folder / "driver",
        results_dir=folder / "results",
        study="edp",
        guard_socket=guard_socket,
        procedure=QUICK,
        progress=False,
    )
    budget = joulelab.Budget(num_trials=8)
    return joulelab.search("gemm", {"sm_clock_mhz": CLOCKS_MHZ}, lab=lab, budget=budget)


@pytest.fixture
def under_way(search, tmp_path):
    """The folder as it was after the first measurements, while this process has the study."""

    def cut(num_measurements):
        folder = tmp_path / f"cut-{num_measurements}"
        shutil.copytree(search.folder, folder, ignore=shutil.ignore_patterns("search*", "*.html"))
        kept = {m.measurement_id for m in search.measurements[:num_measurements]}
        for path in (folder / "measurements").iterdir():
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(x for x in lines if any(each in x for each in kept)))
        return folder

    return cut


def test_what_a_search_has_found_so_far_is_what_its_end_says_of_the_same(search):
    store = ResultStore(search.folder)

    found = search_so_far(store, search.measurements)

    assert found.answer.best == search.result.answer.best
    assert found.answer.spent_j == pytest.approx(search.result.answer.spent_j)
    assert len(found.steps) == len(search.result.steps)
    assert found.rows == search.result.rows


def test_what_trials_took_adds_up_to_what_the_search_did(search):
    outcomes = [step.outcome for step in search.result.steps]

    assert sum(each.spent_j for each in outcomes) == pytest.approx(search.result.answer.spent_j)
    windows_s = sum(w.duration_s for m in search.measurements for w in m.windows)
    assert sum(each.spent_s for each in outcomes) > windows_s > 0.0


def test_a_search_that_goes_on_has_front_and_course_of_what_is_there(under_way):
    folder = under_way(3)

    with StudyLock(folder):
        page = text_of(folder)

    assert f"under way: process {os.getpid()} on " in page
    assert "The search goes on, and may find better." in page
    assert "holds for what was measured so far" in page
    assert page.count("<svg") >= 2
    assert "3 of " in page  # trials of configurations


def test_before_the_baseline_the_page_says_what_is_missing(under_way):
    folder = under_way(0)
    shutil.rmtree(folder / "measurements")

    page = text_of(folder)

    assert "There is nothing to report yet. Nothing was measured yet." in page
    assert "<svg" not in page


def test_progress_and_failures_are_shown(under_way):
    folder = under_way(5)
    failed = Trouble(what="00006-810MHz", detail="the <b>program</b> died")
    running = RunningTrial(uuid="GPU-a", trial="00007-700MHz", since_unix_s=0.0)
    state = replace(read_state(folder), num_done=6, running=(running,), failed=(failed,))
    write_state(folder, replace(state, num_retries=2))

    page = live_page(folder)

    assert "6 of 8 done" in page
    assert "2 attempts of this run made again" in page
    assert "00007-700MHz" in page
    assert "the &lt;b&gt;program&lt;/b&gt; died" in page


def test_a_study_whose_process_was_killed_has_ended(under_way):
    folder = under_way(5)
    command = [sys.executable, "-c", KILLED_STUDY, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "locked"
        before = holder_of(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert before.pid == process.pid
    assert (folder / "lock").exists()
    assert holder_of(folder) is None
    assert "ended: no process has it" in live_page(folder)
    assert "ended by the end of its process" in text_of(folder)
    with pytest.raises(TrackingError, match="joulelab watch"):  # and no report of a mere sweep
        report_anew(ResultStore(folder))


def test_a_search_that_has_ended_says_what_ended_it(search):
    page = text_of(search.folder)

    assert "goes on" not in page
    assert search.result.method.stopped_by in page
    assert (search.folder / search_result.ASKED).exists()


def test_a_sweep_has_its_curves_so_far(make_lab):
    study = joulelab.sweep("stream", clocks_mhz=[1500, 1200, 990], lab=make_lab(), repeats=1)

    page = text_of(study.folder)

    assert "<svg" in page
    assert "1200" in page


def test_a_study_of_knobs_is_known_by_what_it_asks_for(make_lab):
    formats = Axis(knob="precision", values=("bf16", "fp32"), title="format")
    grid = knob_grid("gemm", {}, [formats])
    asked = KnobLog(study=KnobStudy(grid=grid, about="formats", panels=("energy", "time")))
    trials = plan_sweep("formats", grid.configurations[:1], repeats=1, sentinel=None)
    lab = make_lab(study="formats")
    with lab.open() as gpus:
        lab.carry_out(
            trials,
            gpus,
            lab.study_dir("formats"),
            settings=None,
            begin=lambda store: store.write_file(ASKED, asked),
        )

    page = text_of(lab.study_dir("formats"))

    assert "nothing to report" not in page
    assert "bf16" in page
    assert "fp32" in page
