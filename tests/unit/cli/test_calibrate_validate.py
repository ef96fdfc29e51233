"""Fitting and comparing, from tables of a user's own."""

import csv
import json
from pathlib import Path

import pytest

from joulelab import estimator
from joulelab.cli.calibrate import Calibrate
from joulelab.cli.main import main
from joulelab.errors import ConfigError
from joulelab.estimator.validation import read_measured
from joulelab.hardware.board_facts import read_board_facts
from joulelab.hardware.processors import HOSTS, PROCESSORS, TYPICAL, find_host
from joulelab.tracking.mlflow_calibrations import register_calibration

COPY_B = 8e9
SHARE = 0.8


@pytest.fixture
def anchors(tmp_path):
    """Copies that reach a known share of an H100's bandwidth, and one faster than its memory."""
    memory = PROCESSORS["h100"].memory
    path = tmp_path / "anchors.csv"
    rows = [
        {
            "name": f"copy {scale}",
            "kind": "copy",
            "dtype": "float32",
            "mode": "graph",
            "elements": COPY_B * scale / 8,
            "flop": 0,
            "moved_b": COPY_B * scale,
            "num_operators": 1,
            "time_s": COPY_B * scale / (share * memory.bandwidth_b_per_s),
            "power_w": 500,
        }
        for scale, share in ((1, SHARE), (2, SHARE), (4, SHARE), (8, 3.0))
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_copy_identifies_the_share_of_bandwidth(anchors, tmp_path, capsys):
    target = tmp_path / "fitted.json"

    code = main(["calibrate", str(anchors), "--device", "h100", "--json", "--out", str(target)])

    told = json.loads(capsys.readouterr().out)
    figures = {one["name"]: one["value"] for one in told["figures"]}
    (efficiency,) = (value for name, value in figures.items() if "memory_efficiency" in name)
    assert code == 0
    assert efficiency == pytest.approx(SHARE, rel=0.02)
    assert list(told["rejected"]) == ["copy 8"]
    assert json.loads(target.read_text()) == told


def test_the_figures_and_what_was_refused_are_shown(anchors, capsys):
    main(["calibrate", str(anchors), "--device", "h100"])

    out = capsys.readouterr().out
    assert "memory_efficiency" in out
    assert "refused: copy 8" in out


def test_a_missing_table_is_a_bad_request(tmp_path, capsys):
    missing = str(tmp_path / "none.csv")

    assert main(["calibrate", missing, "--device", "h100"]) == 2
    assert main(["validate", missing]) == 2
    assert "none.csv" in capsys.readouterr().err


def measured(path, **changes):
    row = {"model": "resnet18", "device": "h100", "precision": "fp16", "batch": 8, **changes}
    path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    return path


def test_errors_are_those_of_the_estimate(tmp_path, capsys):
    found = estimator.estimate("resnet18", device="h100", precision="fp16", batch=8)
    table = measured(
        tmp_path / "own.csv", time_s=found.latency_s / 1.25, energy_j=found.energy_j / 0.8
    )

    code = main(["validate", str(table), "--json"])

    (summary,) = json.loads(capsys.readouterr().out)["summaries"]
    assert code == 0
    assert summary["time_mape"] == pytest.approx(0.25)
    assert summary["energy_mape"] == pytest.approx(0.2)


def test_without_a_table_every_device_shows_its_tier(capsys):
    assert main(["validate"]) == 0

    out = capsys.readouterr().out
    assert all(key in out for key in PROCESSORS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "time_s or energy_j"),
        ({"time_s": -1}, "positive"),
        ({"time_s": 1, "mode": "eagre"}, "Did you mean 'eager'"),
        ({"time_s": "soon"}, "Line 2"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        read_measured(measured(tmp_path / "own.csv", **changes))


BOARD = Path(__file__).parents[3] / "experiments" / "results" / "h200_calibration" / "board.json"
ASKED = ("estimate", "--model", "resnet18", "--device", "h200", "--quick", "--json")


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
def test_an_estimate_takes_a_registered_calibration_as_it_takes_its_file(store_uri, capsys):
    register_calibration(store_uri, "node7", read_board_facts(BOARD))

    answers = []
    for where in (str(BOARD), "models:/node7"):
        assert main([*ASKED, "--calibration", where, "--tracking-uri", store_uri]) == 0
        answers.append(json.loads(capsys.readouterr().out))

    assert answers[0] == answers[1]


def test_only_a_board_is_registered(capsys):
    assert main(["calibrate", "--host", "--register", "node7"]) == 2
    assert "--register keeps what --board measures" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--register", " "), "needs a name, got an empty one"),
        (("--register", "a", "--tracking-uri", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_registered_is_refused_before_anything_is_measured(capsys, options, why):
    assert main(["calibrate", "--board", "--device", "simulated", *options]) == 2
    assert why in capsys.readouterr().err


def test_this_machine_is_measured_and_kept(tmp_path, capsys):
    path = tmp_path / "here.toml"

    assert Calibrate(host=True, out=path).run() == 0

    here = find_host(str(path))
    assert 1e-7 < here.module_s < 1e-4
    assert 0 <= here.disturbed < 1
    assert "add" in capsys.readouterr().out
    ratio = here.module_s / HOSTS[TYPICAL].module_s
    wanted_s = ratio * HOSTS[TYPICAL].operator_s["linear"]
    assert here.operator_s["linear"] == pytest.approx(wanted_s, rel=1e-3)


def test_calibrating_says_what_it_takes():
    with pytest.raises(ConfigError, match="--host"):
        Calibrate().run()
    with pytest.raises(ConfigError, match="no table"):
        Calibrate(host=True, device="h200").run()
