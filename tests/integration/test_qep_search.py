"""The search for quality, energy and performance, from its script to its answer."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from actor_fixtures import QUICK

from joulelab.analysis.search_result import read_log, result_of
from joulelab.cli.search_options import Axes, Limits
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError
from joulelab.objectives import OBJECTIVES
from joulelab.study.budget import Budget
from joulelab.study.lab import StudyWorkload
from joulelab.study.search import problem_on
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.digits import DigitsVitSettings
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.placement import simulated_sites
from joulelab_actors.scoring import score_beside

SCRIPT = Path(__file__).parents[2] / "experiments" / "qep_search.py"
PROGRAM = """
from pathlib import Path

from beside_the_scored import EXAMPLES
from joulelab.core.cost import KernelCost, PhaseCost

SIZES_B = {"fp32": 4, "bf16": 2, "int4": 0.5}


class Net:
    unit, work = "image", staticmethod(lambda precision, batch: batch)
    quality_knobs = ("precision",)

    def __init__(self, precision: str = "fp32", batch: int = 1):
        self.size_b = SIZES_B[precision]

    def __call__(self):
        raise AssertionError("a simulated GPU plays the cost")

    def quality(self):
        with Path("SCORED").open("a") as file:
            file.write("x")
        return [example < 30 + 8 * self.size_b for example in EXAMPLES]

    @staticmethod
    def cost(precision, batch):
        moved_b = 1e8 * SIZES_B[precision]
        kernel = KernelCost(name="gemm", pipe="tensor_bf16", flop=1e9 * batch, dram_b=moved_b)
        return PhaseCost(phase="run", work=batch, kernels=(kernel,))
"""
RANDOM = DigitsVitSettings(weights=None)
"""Weights that nobody trained: formats agree with one another all the same, more or less."""
AXES = Axes(batches=(16, 64), precisions=("fp32", "fp8", "bf16", "int4"))


@pytest.fixture
def run(cluster, tmp_path, monkeypatch, guard_socket):
    """Run the script; returns its exit code, the rows of its table and its store."""

    def run(*, workload=RANDOM, observe_only=False, **settings):
        spec = importlib.util.spec_from_file_location("qep_search", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "qep_search", module)
        spec.loader.exec_module(module)
        lab = Laboratory(
            num_gpus=1,
            store=tmp_path / "driver",
            study="it",
            results_dir=tmp_path,
            tracking_uri="none",
            procedure=QUICK,
            guard_socket=guard_socket,
            observe_only=observe_only,
        )
        if workload is RANDOM:
            settings = {"metric": "class_agreement", **settings}
        config = module.QepSearch(workload=workload, lab=lab, **settings)
        code = module.main(config)
        rows = read_csv_table(tmp_path / "it" / "search.csv")
        return code, rows, ResultStore(tmp_path / "it")

    return run


def test_clock_batch_and_format_are_searched_for_energy_time_and_quality(run, capsys):
    code, rows, store = run(
        axes=AXES,
        limits=Limits(max_slowdown=0.2),
        budget=Budget(num_trials=10),
        quality_floor=0.5,
    )

    said = capsys.readouterr().out
    assert code == 0
    assert "precision fp32: 100.00 %" in said
    assert "precision fp8: left out" in said
    [int4] = re.findall(r"precision int4: (.+) % ± (.+) %", said)
    assert 0 < float(int4[0]) < 100
    assert float(int4[1]) > 0
    assert {row["precision"] for row in rows} <= {"fp32", "bf16", "int4"}
    kept = {row["precision"]: float(row["retention"]) for row in rows if row["retention"]}
    assert kept["fp32"] == 1.0
    assert all(0.5 <= each <= 1.0 for each in kept.values())
    assert len({m.configuration.point.sm_clock_mhz for m in store.read()}) > 2
    assert all(float(row["memory_b"]) > 0 for row in rows if row["energy_per_unit_j"])
    asked = [m.configuration for m in sorted(store.read(), key=lambda m: m.trial)]
    assert asked[-1] in asked[:-1]  # however small the budget, it ends with a repeat
    assert store.read_answer().note
    assert result_of(read_log(store), store.read()).answer.best.figures.retention >= 0.5


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write a program, and return its settings and the file that counts its scorings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "scored.py").write_text(PROGRAM.replace("SCORED", str(tmp_path / "count")))
    (tmp_path / "beside_the_scored.py").write_text("EXAMPLES = range(64)\n")
    yield WORKLOADS["scored.py:Net"].settings_type(), tmp_path / "count"
    sys.modules.pop("beside_the_scored", None)


def test_a_program_that_says_its_quality_is_searched_where_its_file_is_sent(run, program, capsys):
    workload, count = program
    asked = {
        "workload": workload,
        "axes": Axes(batches=(1, 16), precisions=("fp32", "bf16", "int4")),
        "limits": Limits(),
        "observe_only": True,
        "quality_floor": 0.6,
        "budget": Budget(num_trials=9),
    }

    code, rows, store = run(**asked)
    first = capsys.readouterr().out
    run(**asked)  # goes on with it
    again = capsys.readouterr().out

    assert code == 0
    assert all(m.configuration.point.is_default for m in store.read())  # there are no setters
    assert 3 <= len({(row["precision"], row["batch"]) for row in rows}) <= 6
    lines = [line for line in first.splitlines() if line.startswith("  precision")]
    assert [line.partition(" ±")[0] for line in lines] == [
        "  precision fp32: 100.00 %",
        "  precision bf16: 74.19 %",
        "  precision int4: 54.84 %",
    ]
    assert all(line in again for line in lines)
    assert count.read_text() == "xxx"  # not for each batch, and not again by the same study
    kept = {row["precision"]: float(row["retention"]) for row in rows if row["retention"]}
    assert kept["fp32"] == 1.0
    best = result_of(read_log(store), store.read()).answer.best
    assert dict(best.configuration.knobs) == {"precision": "bf16", "batch": 16}
    assert best.figures.retention == pytest.approx(46 / 62)


def test_a_program_whose_baseline_has_no_score_is_refused_with_its_own_words(run, program):
    Path("failing.py").write_text(PROGRAM.replace("SCORED", "no/such/folder/images"))
    workload = WORKLOADS["failing.py:Net"].settings_type()

    with pytest.raises(ConfigError, match=r"no score.*\(failing.py, line 21\): FileN"):
        run(workload=workload, axes=Axes(precisions=("fp32", "bf16")))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["bare.py:step"], "bare.py:step does not say what its outputs are worth"),
        (["scored.py:Net", "--vary", "size=1,2"], "size"),
        (["bare.py:priceless", "--vary", "size=4,8"], "priceless has no cost, which simulated"),
    ],
)
@pytest.mark.usefixtures("cluster", "program")
def test_a_program_that_cannot_be_searched_is_refused_in_one_line(
    words, complaint, run_script, capsys
):
    Path("bare.py").write_text(
        "def step(): pass\ndef priceless(size: int = 4): pass\n"
        "priceless.quality = lambda size: [1.0] * size\n"
    )

    code = run_script(SCRIPT, *words, "--results-dir", "results", "--store", "driver")

    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if line.startswith("qep_search: ")]
    assert code == 2
    assert len(said) == 1
    assert complaint in said[0]


def space_of(site):
    asked = AXES.asked(RANDOM)
    return problem_on([site], StudyWorkload(RANDOM), asked, OBJECTIVES["qep"]).space


def test_a_metric_that_cannot_score_the_workload_is_refused_as_such(cluster, tmp_path):
    [site] = simulated_sites("h200_sxm", 1, str(tmp_path))

    with pytest.raises(ConfigError, match="perplexity cannot be scored for digits-vit"):
        score_beside(site, space_of(site), metric="perplexity", folder=tmp_path)
