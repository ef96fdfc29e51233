"""``joulelab models trace``: models of power over time, from recordings to a prediction."""

import csv
import json
import shutil
from io import StringIO

import pytest
from rich.console import Console
from synthetic_traces import STEP_S, traces

from joulelab.cli.main import main
from joulelab.cli.trace_models import _forecasts
from joulelab.tracking.addresses import embedded_uri

RECORDINGS = traces(10, num_steps=40, noise=0.01)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "samples.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["recording", "t_s", "phase", "tensor_active", "dram_active", "power_w"])
        for trace in RECORDINGS:
            columns = (trace.schedule.phase, *trace.schedule.inputs.values(), trace.power_w)
            for step, values in enumerate(zip(*columns, strict=True)):
                writer.writerow([trace.name, f"{step * STEP_S:.1f}", *values])
    return path


@pytest.fixture(scope="module")
def folder(samples):
    folder = samples.parent / "model"
    assert main(["models", "trace", "train", str(samples), "--out", str(folder)]) == 0
    return folder


def told(capsys, *words):
    capsys.readouterr()
    code = main(["models", "trace", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_training_tells_what_from(capsys, samples, tmp_path):
    code, out, _ = told(capsys, "train", samples, "--out", tmp_path / "m", "--json")

    found = json.loads(out)
    assert code == 0
    assert (found["model"], found["num_recordings"]) == ("state_machine_ar1", 10)
    assert found["phases"] == ["decode", "idle", "prefill"]
    assert len(found["data_hash"]) == 12


def test_training_tells_the_highest_level_of_intervals(capsys, samples, tmp_path):
    """The default level of a prediction was refused first, after the training."""
    shown = told(capsys, "train", samples, "--out", tmp_path / "m")[1]
    found = json.loads(told(capsys, "train", samples, "--out", tmp_path / "m", "--json")[1])

    assert "intervals up to --level 0.909" in shown
    assert found["highest_level"] == 0.909


def test_energies_of_many_joules_are_written_without_an_exponent():
    """10003 J of a recording were shown as 1e+04 J."""
    each = {"energy_j": 10003.0, "lower_j": 9000.0, "upper_j": 12345.6, "duration_s": 100.0}
    console = Console(file=StringIO(), width=100)

    for part in _forecasts({"a": {**each, "outside": ()}}):
        console.print(part)

    shown = console.file.getvalue()
    assert all(words in shown for words in ("100 s", "100 W", "10 kJ", "9 kJ", "12.35 kJ"))
    assert "e+" not in shown


def test_a_prediction_has_an_energy_inside_its_interval(capsys, samples, folder):
    code, out, _ = told(capsys, "predict", samples, folder, "--json")

    found = json.loads(out)
    assert code == 0
    assert list(found) == [trace.name for trace in RECORDINGS]
    for each in found.values():
        assert each["lower_j"] < each["energy_j"] < each["upper_j"]
        assert each["energy_j"] == pytest.approx(sum(each["power_w"]) * each["step_s"])
        assert each["outside"] == []


def test_a_prediction_is_shown_as_a_table(capsys, samples, folder):
    code, out, _ = told(capsys, "predict", samples, folder)

    assert code == 0
    assert "recording 03" in out


def test_models_are_compared_with_the_baseline(capsys, samples):
    code, out, _ = told(capsys, "evaluate", samples, "--model", "state_machine_ar1", "--json")

    scores = json.loads(out)["state_machine_ar1"]
    assert code == 0
    assert scores["median"] < 0.05
    assert len(scores["energy_error"]) == 10


def test_what_is_unlike_training_is_refused_where_that_is_asked(capsys, samples, folder, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(samples.read_text().replace("decode", "training"))

    code, _, err = told(capsys, "predict", other, folder, "--refuse-outside")

    assert code == 2
    assert "Phase 'training' was not trained on" in err


def test_a_model_of_runs_is_not_taken_for_one_of_traces(capsys, samples, folder):
    state = json.loads((folder / "model.json").read_text())
    other = folder.parent / "other"
    other.mkdir()
    (other / "arrays.npz").write_bytes((folder / "arrays.npz").read_bytes())
    (other / "model.json").write_text(json.dumps({**state, "name": "physics"}))

    code, _, err = told(capsys, "predict", samples, other)

    assert code == 2
    assert "'physics'" in err


def test_help_tells_of_the_subcommands(capsys):
    with pytest.raises(SystemExit):
        main(["models", "trace", "--help"])

    assert "models trace train|evaluate|predict|use|register" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("sweep",)])
def test_an_unknown_subcommand_is_answered_with_those_that_are(capsys, words):
    code, _, err = told(capsys, *words)

    assert code == 2
    assert "train, evaluate, predict, use, register" in err


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Operation with range is deprecated")
def test_a_registered_trace_model_answers_by_its_name(
    capsys, samples, folder, fresh_store, tmp_path
):
    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    store = ("--tracking-uri", embedded_uri(tmp_path), "--json")
    code, out, _ = told(capsys, "register", samples, folder, "--name", "lab traces", *store)
    found = json.loads(out)

    by_name = told(capsys, "use", samples, "models:/lab traces", *store)

    assert code == 0
    assert (found["name"], found["version"]) == ("lab traces", 1)
    assert by_name == told(capsys, "use", samples, "models:/lab traces/1", *store)
    assert by_name == told(capsys, "predict", samples, folder, "--json")
    assert told(capsys, "use", samples, "models:/lab traces/2", *store)[0] == 2
