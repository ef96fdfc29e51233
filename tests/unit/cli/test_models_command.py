"""``joulelab models``: the list as before, and power models from a table to a chosen clock."""

import csv
import json

import pytest
from calibrated_by_law import board_like, facts_by_law
from synthetic_runs import CLOCKS_MHZ, rows_by_law, write_runs

from joulelab.cli.main import main
from joulelab.cli.power_models import around
from joulelab.hardware import GPUS
from joulelab.hardware.board_facts import board_text


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.csv")


@pytest.fixture(scope="module")
def folder(table):
    folder = table.parent / "model"
    assert main(["models", "train", str(table), "--out", str(folder)]) == 0
    return folder


def told(capsys, *words):
    capsys.readouterr()
    code = main(["models", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_tells_of_both(capsys):
    with pytest.raises(SystemExit):
        main(["models", "--help"])

    out = capsys.readouterr().out
    assert "List the models that can be estimated" in out
    assert "train|evaluate|predict|use|sweep|register" in out


def test_training_tells_that_it_takes_the_place_of_a_model(capsys, table, tmp_path):
    """It wrote over the model of the folder without a word."""
    words = ("train", table, "--out", tmp_path / "m", "--power", "mean", "--time", "mean")

    first, second = told(capsys, *words)[1], told(capsys, *words)[1]

    assert "instead of" not in first
    assert f"{tmp_path / 'm'}, instead of the model that was there" in " ".join(second.split())


def test_training_tells_what_from(capsys, table, tmp_path):
    code, out, _ = told(
        capsys, "train", table, "--out", tmp_path / "m",
        *("--power", "mean", "--time", "mean", "--json"),
    )  # fmt: skip

    found = json.loads(out)
    assert code == 0
    assert (found["power"], found["num_runs"], found["num_applications"]) == ("mean", 72, 12)
    assert len(found["data_hash"]) == 12


def test_a_sweep_marks_the_clock_with_the_least_energy(capsys, folder):
    code, out, _ = told(
        capsys,
        *("sweep", folder, "--board", "a100_sxm", "--fp-active", 0.3, "--dram-active", 0.3),
        *("--sm-active", 0.8, "--tensor-active", 0.0, "--sm-clock-mhz", *CLOCKS_MHZ, "--json"),
    )

    found = json.loads(out)
    least = min(found["predictions"], key=lambda row: row["energy_j"])
    assert code == 0
    assert len(found["predictions"]) == len(CLOCKS_MHZ)
    assert found["best_clock_mhz"]["energy"] == least["sm_clock_mhz"]
    assert found["outside"] == []


def test_a_sweep_of_a_gpu_of_another_kind_says_why_a_fixed_clock_ratio_is_chosen(capsys, folder):
    code, out, _ = told(capsys, "sweep", folder, "--board", "v100_pcie", "--json")
    _, shown, _ = told(capsys, "sweep", folder, "--board", "v100_pcie")

    found = json.loads(out)
    assert code == 0
    assert set(found["choice_reason"]) == set(found["best_clock_mhz"]) == {"energy", "edp", "ed2p"}
    assert "best fixed clock ratio of the training table" in " ".join(shown.split())


def test_a_prediction_has_an_interval_around_it(capsys, table, folder):
    code, out, _ = told(
        capsys,
        *(
            "predict",
            table,
            folder,
            "--application",
            "app03",
            "--sm-clock-mhz",
            900,
            1410,
            "--json",
        ),
    )

    rows = json.loads(out)["predictions"]
    assert code == 0
    for row in rows:
        assert row["power_w_lower"] < row["power_w"] < row["power_w_upper"]
        assert row["energy_j"] == pytest.approx(row["power_w"] * row["time_s"])


def test_a_board_with_another_label_is_told_to_be_another_board(capsys, folder):
    """Its intervals were three times as wide as those of the board trained on, without a word."""
    words = ("sweep", folder, "--board", "a100_sxm", "--sm-clock-mhz", 900, "--json")

    own, other = (told(capsys, *words, *more)[1] for more in ((), ("--gpu", "node7")))

    assert not any("the board is" in each for each in json.loads(own)["outside"])
    assert "the board is 'node7'; trained on those with the labels 'a100_sxm'" in other


def test_a_wide_interval_is_shown_with_both_its_ends(capsys, folder, monkeypatch):
    """An interval from a third of a power to thrice it was shown as that power +-189 %."""
    monkeypatch.setenv("COLUMNS", "160")
    words = ("sweep", folder, "--board", "v100_pcie", "--sm-clock-mhz", 1380, "--level", 0.9)

    [row] = json.loads(told(capsys, *words, "--json")[1])["predictions"]
    shown = told(capsys, *words)[1]

    above, below = (row[f"power_w_{end}"] / row["power_w"] - 1 for end in ("upper", "lower"))
    assert above > -below > 0.3
    assert f"{100 * above:+.0f} {100 * below:+.0f} %" in shown


def test_scores_show_intervals_as_predictions_do(capsys, table, monkeypatch):
    """Half widths in logs were told in percent, where predictions have the ends of intervals."""
    monkeypatch.setenv("COLUMNS", "160")
    words = ("evaluate", table, "--model", "mean", "--level", 0.8)

    scores = json.loads(told(capsys, *words, "--json")[1])["scores"]["mean"]
    shown = told(capsys, *words)[1]

    assert around(scores[0]["intervals"]["power_w"]["half_width"]) in shown


def test_clocks_above_the_one_that_a_limit_held_are_not_marked(capsys, folder, tmp_path):
    """Clocks that no run of the table had reached were marked as the best."""
    rows = [row for row in rows_by_law(2) if row["application"] == "app01"]
    limit_w = rows[-2]["power_w"]  # at 1290 MHz
    limits = {"power_limit_w": limit_w}
    swept = [row | limits | {"observed_sm_clock_mhz": row["sm_clock_mhz"]} for row in rows[:4]]
    held = rows[-2] | limits | {"sm_clock_mhz": 1410, "observed_sm_clock_mhz": 1290}
    rows = [*swept, held]
    table = tmp_path / "held.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    words = ("predict", table, folder, "--level", 0, "--sm-clock-mhz")

    _, out, _ = told(capsys, *words, 1290, 1410, "--json")
    _, shown, _ = told(capsys, *words, 1350, 1410)

    found = json.loads(out)
    assert found["held_mhz"] == 1290
    assert set(found["best_clock_mhz"].values()) == {1290}
    assert "The power limit holds it at 1290 MHz" in " ".join(shown.split())
    assert "ED2P" not in shown


def test_a_sweep_keeps_to_the_power_limit_of_the_board(capsys, folder):
    """It predicted 727 W on a board of 700 W, and marked that clock."""
    units = ("--fp-active", 0.9, "--dram-active", 0.9, "--sm-active", 1, "--tensor-active", 1)

    _, out, _ = told(capsys, "sweep", folder, "--board", "a100_pcie", *units, "--json")

    found = json.loads(out)
    limit_w = GPUS["a100_pcie"].default_power_limit_w
    assert max(row["power_w"] for row in found["predictions"]) == limit_w
    assert max(found["best_clock_mhz"].values()) <= found["held_mhz"] < 1410


def test_an_anchored_prediction_meets_what_was_measured(capsys, table, folder):
    words = ("--application", "app03", "--sm-clock-mhz", 1410, "--anchored", "--json")

    _, out, _ = told(capsys, "predict", table, folder, *words)

    with table.open() as file:
        measured = next(
            float(row["power_w"])
            for row in csv.DictReader(file)
            if row["application"] == "app03" and row["sm_clock_mhz"] == "1410.0"
        )
    assert json.loads(out)["predictions"][0]["power_w"] == pytest.approx(measured, rel=0.02)


def test_models_are_compared_on_what_they_were_not_shown(capsys, table):
    code, out, _ = told(capsys, "evaluate", table, "--model", "mean", "physics", "--json")

    scores = json.loads(out)["scores"]
    cold = {name: each[0]["errors"]["power_w"]["mean"] for name, each in scores.items()}
    assert code == 0
    assert cold["physics"] < cold["mean"]
    assert {"maximum clock", "best fixed clock"} == set(scores["mean"][0]["baselines"])


def rows_written(path, num_applications):
    rows = rows_by_law(num_applications)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("num_applications", "level", "why"),
    [(2, 0.0, "at least 3 applications"), (3, 0.75, "9 applications when the model is fitted")],
)
def test_training_says_which_intervals_few_applications_give_and_predicting_how_to_ask(
    capsys, tmp_path, num_applications, level, why
):
    """It failed by default, for a setting that no command has."""
    table = rows_written(tmp_path / "few.csv", num_applications)
    names = ("--power", "mean", "--time", "mean")

    _, out, _ = told(capsys, "train", table, "--out", tmp_path / "m", *names, "--json")
    asked = ("predict", table, tmp_path / "m", "--application", "app01", "--sm-clock-mhz", 900)
    code, _, err = told(capsys, *asked)
    again, _, _ = told(capsys, *asked, "--level", json.loads(out)["highest_level"])

    assert json.loads(out)["highest_level"] == level
    assert (code, again) == (2, 0)
    assert why in " ".join(err.split())
    assert "--level 0" in err


def test_two_applications_are_too_few_to_hold_one_out(capsys, tmp_path):
    """An empty table was printed, and that 2 are needed."""
    code, out, err = told(capsys, "evaluate", rows_written(tmp_path / "few.csv", 2))

    assert (code, out) == (2, "")
    assert "at least 3 values to hold one out, got ['app00', 'app01']" in " ".join(err.split())


def test_a_missing_column_is_named_and_is_code_2(capsys, table, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(table.read_text().replace("power_w", "power_mw", 1))

    code, _, err = told(capsys, "train", bad, "--out", tmp_path / "m")

    assert code == 2
    assert "Column 'power_w' is required" in err


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Operation with range is deprecated")
def test_a_model_is_registered_under_its_name_and_used_by_it(
    capsys, table, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # where the store of studies is
    code, out, _ = told(capsys, "register", table, folder, "--name", "lab power", "--json")
    asked = ("--application", "app03", "--sm-clock-mhz", "900", "1200", "--json")
    known, by_folder, _ = told(capsys, "predict", table, folder, *asked)
    used, by_name, _ = told(capsys, "use", table, "models:/lab power", *asked)

    found = json.loads(out)
    assert (code, known, used) == (0, 0, 0)
    assert (found["name"], found["version"]) == ("lab power", 1)
    assert (tmp_path / "joulelab-results" / "mlflow.db").is_file()
    assert json.loads(by_name) == json.loads(by_folder)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Operation with range is deprecated")
def test_a_model_of_few_applications_is_registered_with_the_intervals_that_it_has(
    capsys, tmp_path, monkeypatch
):
    """It was refused, and --level was named, which the command did not have."""
    monkeypatch.setenv("HOME", str(tmp_path))
    few = rows_written(tmp_path / "few.csv", 4)
    member = ("--power", "physics", "--time", "physics")
    told(capsys, "train", few, "--out", tmp_path / "m", *member)

    refused, _, why = told(capsys, "register", few, tmp_path / "m", "--name", "few")
    code, out, _ = told(
        capsys, "register", few, tmp_path / "m", "--name", "few", "--level", "0.8", "--json"
    )

    assert (refused, code, json.loads(out)["version"]) == (2, 0, 1)
    assert "ask for --level 0.8 at most" in " ".join(why.split())


@pytest.mark.parametrize(
    ("where", "why"), [("models:/lab/new", "models:/NAME"), ("models:/", "models:/NAME")]
)
def test_an_address_that_is_none_of_a_registered_model_is_told(capsys, table, where, why):
    code, _, err = told(capsys, "use", table, where, "--sm-clock-mhz", "900")

    assert code == 2
    assert why in err


@pytest.fixture
def calibration(tmp_path):
    def written(key, **changes):
        path = tmp_path / f"{key}.json"
        path.write_text(board_text(facts_by_law(board_like(key, **changes))))
        return path

    return written


def test_a_sweep_takes_what_was_measured_of_the_board(capsys, folder, calibration):
    words = ("sweep", folder, "--board", "a100_sxm", "--fp-active", 0.2, "--dram-active", 0.2)
    clocks = ("--sm-clock-mhz", 210, "--json")

    _, usual, _ = told(capsys, *words, *clocks)
    path = calibration("a100_sxm", constant=1.3)
    _, known, _ = told(capsys, *words, "--calibration", path, *clocks)

    usual_w, known_w = (json.loads(out)["predictions"][0]["power_w"] for out in (usual, known))
    assert known_w > 1.05 * usual_w


def test_a_calibration_of_another_kind_of_gpu_is_refused(capsys, table, folder, calibration):
    path = calibration("h200_sxm")

    code, _, err = told(
        capsys, "predict", table, folder, "--sm-clock-mhz", 900, "--application", "app00",
        "--calibration", path,
    )  # fmt: skip

    assert code
    assert "must be of the kind of GPU that is asked about, a100_sxm" in err
