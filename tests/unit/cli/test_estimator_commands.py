"""The commands on small networks from a user's file, end to end."""

import json
from pathlib import Path

import pytest

from joulelab.cli.estimate_sweep import clock_list
from joulelab.cli.main import main
from joulelab.cli.words import knob_values, numbers
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError
from joulelab.hardware.processors import PROCESSORS

SMALL = """
import torch

def example_inputs(batch):
    return torch.empty(batch, 3, 224, 224)

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.last = torch.nn.Linear(16, 10)

    def forward(self, image):
        return self.last(torch.relu(self.first(image)).mean((2, 3)))

class Unknown(Small):
    def forward(self, image):
        return super().forward(torch.fft.fft2(image).real)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small.py"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture
def joulelab(capsys):
    """Runs a command; returns exit code, output and what was said on the standard error."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def test_one_estimate_starts_with_the_sentence_and_ends_with_confidence(joulelab, small):
    code, out, err = joulelab(
        "estimate", "--model", f"{small}:Small", "--device", "h100", "--batch", 8, "--per-group",
        "--events",
    )  # fmt: skip

    assert code == 0
    assert out.startswith(f"{small}:Small on NVIDIA H100")
    assert "Tracing" in err
    assert "Tracing" not in out
    for part in ("Opportunities", "Confidence B", "Kernels of forward", "kappa:"):
        assert part in out


def test_the_first_word_is_the_model(joulelab, small):
    named, first = (
        joulelab("memory", *words, "--device", "a100_sxm", "--json")
        for words in (("--model", f"{small}:Small"), (f"{small}:Small",))
    )

    assert named == first
    assert named[0] == 0


def test_several_are_a_table_with_an_answer_above(joulelab, small):
    code, out, _ = joulelab(
        "estimate", "--model", f"{small}:Small", "--device", "h100,tpu_v4", "--batch", "1,64",
    )  # fmt: skip

    assert code == 0
    assert out.startswith("Least energy")
    assert out.count("tpu_v4 ") >= 2


def test_a_precision_that_one_device_lacks_leaves_the_others_answered(joulelab, small):
    code, out, _ = joulelab(
        "estimate", "--model", f"{small}:Small", "--device", "v100,h100", "--precision", "bf16",
    )  # fmt: skip

    assert code == 0
    assert "none" in out
    assert "has no bf16 units; it has" in out


def test_json_is_one_object_and_files_follow_their_suffix(joulelab, small, tmp_path):
    target = tmp_path / "x.csv"

    code, out, _ = joulelab(
        "estimate", "--model", f"{small}:Small", "--device", "h100", "--json", "--quick",
        "--per-group", "--out", target,
    )  # fmt: skip

    (found,) = json.loads(out)["estimates"]
    rows = read_csv_table(target)
    assert code == 0
    assert sum(float(row["energy_j"]) for row in rows) == pytest.approx(
        found["totals"]["energy_j"]["total"], rel=1e-9
    )


@pytest.mark.parametrize("family", ["cpu", "gpu", "tpu", "kpu"])
def test_each_family_breaks_energy_down_to_its_own_events(joulelab, small, family):
    code, out, _ = joulelab(f"estimate-{family}", "--model", f"{small}:Small", "--json", "--quick")

    (found,) = json.loads(out)["estimates"]
    (phase,) = found["phases"]
    assert code == 0
    assert found["device"]["family"] == family
    for component in ("compute", "memory", "static"):
        events = [e["energy_j"] for e in phase["events"] if e["path"].startswith(component)]
        assert sum(events) == pytest.approx(phase["energy"][f"{component}_j"], rel=1e-9)


def test_a_device_of_another_family_is_sent_to_its_command(joulelab, small):
    code, out, err = joulelab("estimate-cpu", "--model", f"{small}:Small", "--device", "h100")

    assert code == 2
    assert out == ""
    assert "use `joulelab estimate-gpu`" in err


def test_compare_puts_the_most_frugal_first(joulelab, small):
    code, out, _ = joulelab("compare", "--model", f"{small}:Small", "--json")

    found = json.loads(out)["estimates"]
    energies = [one["totals"]["energy_j"]["total"] for one in found]
    assert code == 0
    assert energies == sorted(energies)
    assert len(energies) == 5
    assert any(one["on_front"] for one in found)


def test_compare_writes_its_front_and_prices_in_markdown(joulelab, small, tmp_path):
    code, out, _ = joulelab(
        *("compare", "--model", f"{small}:Small", "--device", "h200,l4"),
        *("--price", "h200=31000,l4=2500", "--out", str(tmp_path / "front.md")),
    )

    written = (tmp_path / "front.md").read_text()
    assert code == 0
    assert "On the front of time, energy and price" in out
    assert "| 2500 | * |" in written


@pytest.mark.parametrize("price", ["h200=31000", "h200=31000,l4=0", "h200=nan,l4=2500"])
def test_a_price_that_is_missing_or_none_is_refused_before_anything_is_traced(
    joulelab, tmp_path, price
):
    """It was refused after all models had been built and traced, which takes minutes."""
    asked = "compare", "--model", f"{tmp_path}/absent.py:Small", "--device", "h200,l4"

    code, _, err = joulelab(*asked, "--price", price)

    assert code == 2
    assert "--price must give each device" in err


def test_sweep_finds_a_clock_and_shows_the_table_around_it(joulelab, small):
    code, out, _ = joulelab(
        "estimate-sweep", "--model", f"{small}:Small", "--device", "h100", "--clock-mhz",
        "500:1900:100", "--batch", "1,8",
    )  # fmt: skip

    assert code == 0
    assert out.startswith("Lowest predicted EDP per sample")
    assert "default 1980" in out


def test_sweep_in_json_holds_the_curves(joulelab, small):
    code, out, _ = joulelab(
        "estimate-sweep", "--model", f"{small}:Small", "--device", "h100", "--json",
        "--clock-mhz", "600,1200",
    )  # fmt: skip

    (curve,) = json.loads(out)["curves"]
    products = [e * t for e, t in zip(curve["energy_j"], curve["latency_s"], strict=True)]
    assert code == 0
    assert curve["clocks_mhz"] == [600, 1200, 1980]
    assert curve["best_mhz"] == curve["clocks_mhz"][products.index(min(products))]


@pytest.mark.parametrize(("most_w", "code"), [("1000", 0), ("1", 1)])
def test_a_sweep_fails_where_no_clock_keeps_to_the_limits(joulelab, small, most_w, code):
    found, _, said = joulelab(
        "estimate-sweep", "--model", f"{small}:Small", "--device", "h100", "--clock-mhz",
        "600,1200", "--max-power-w", most_w,
    )  # fmt: skip

    assert found == code
    assert ("no clock keeps to the limits" in said) is bool(code)


def test_memory_says_how_large_a_batch_fits(joulelab, small):
    code, out, _ = joulelab("memory", "--model", f"{small}:Small", "--device", "h100", "--json")

    (found,) = json.loads(out)["memory"]
    assert code == 0
    assert found["fits"]
    most = found["largest_batch"]
    for batch, fits in ((most, True), (int(most * 1.05), False)):
        answered, out, _ = joulelab(
            "memory", "--model", f"{small}:Small", "--device", "h100", "--batch", batch, "--json"
        )
        assert json.loads(out)["memory"][0]["fits"] is fits
        assert answered == int(not fits)


def test_what_does_not_fit_is_estimated_and_exits_with_1(joulelab, small):
    code, out, _ = joulelab(
        "estimate", "--model", f"{small}:Small", "--device", "coral", "--batch", 65536, "--quick",
    )  # fmt: skip

    assert code == 1
    assert "does not fit: needs" in out


def test_processors_lists_every_device_and_every_source(joulelab):
    _, listed, _ = joulelab("processors")
    _, told, _ = joulelab("processors", "--json")
    _, one, _ = joulelab("processors", "--device", "h200")

    assert all(key in listed for key in PROCESSORS)
    assert len(json.loads(told)) == len(PROCESSORS)
    assert "units.sm_count" in one


def test_processors_are_filtered_by_family_and_text(joulelab):
    _, told, _ = joulelab("processors", "--family", "tpu", "--filter", "v5", "--json")

    assert {one["key"] for one in json.loads(told)} == {"tpu_v5e", "tpu_v5p"}


def test_models_are_filtered_by_text_and_source(joulelab):
    code, out, _ = joulelab("models", "resnet50", "--source", "torchvision", "--json")
    empty, _, _ = joulelab("models", "no such network at all")

    assert code == 0
    assert "resnet50" in json.loads(out)["torchvision"]
    assert empty == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "h10"), "Did you mean"),
        (("--device", "h100", "--precision", "fp17"), "Did you mean 'fp16'"),
        (("--device", "v100", "--precision", "bf16"), "has no bf16 units"),
        (("--device", "h100", "--batch", "eight"), "--batch takes whole numbers, got 'eight'"),
        (("--device", "h100", "--batch", "0"), "within 1 and 1e+06, got 0"),
        (("--device", "h100", "--batch", ","), "--batch needs at least one"),
        (("--device", "h100", "--knob", "image_size"), "key=value, got 'image_size'"),
        (("--device", "h100", "--out", "x.pdf"), ".json, .csv, .md or .html"),
        (("--device", "h100", "--clock-mhz", "9000"), "9000"),
        (("--device", "h100", "--num-devices", "0"), "within 1 and 100000, got 0"),
        (("--device", "h100", "--num-devices", "2"), "tensor parallelism"),
    ],
)
def test_a_bad_request_is_one_clear_line_and_exits_with_2(joulelab, small, words, said):
    code, out, err = joulelab("estimate", "--model", f"{small}:Small", "--quick", *words)

    assert code == 2
    assert out == ""
    assert said in err


def test_a_file_that_fails_is_shown_by_its_own_lines_alone(joulelab, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + torch.ones(3)\n\n\ndef example_inputs(batch):\n"
        "    return torch.ones(batch, 8)\n"
    )

    code, _, err = joulelab("estimate", "--model", f"{path}:Net", "--device", "h100")

    first, place, line, *marks, why = err.splitlines()[-5:]
    assert code == 2
    assert first.endswith("broken.py failed:")
    assert place == f'  File "{path}", line 6, in forward'
    assert line == "    return x + torch.ones(3)"
    assert len(marks) == 1
    assert why.startswith("RuntimeError")
    assert "fake_tensor.py" not in err


def test_a_file_in_the_present_folder_is_shown_without_the_importer(
    joulelab, tmp_path, monkeypatch
):
    """Frames of no file were taken for files of the present folder, and so for the user's."""
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("import torch\n\nsize = 1 / 0\n")

    _, _, err = joulelab("estimate", "--model", "broken.py:Net", "--device", "h100")

    assert "broken.py" in err.splitlines()[-4]
    assert "frozen" not in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import torch\nclass Net(torch.nn.Linear):\n"
            "    def __init__(self):\n        super().__init__(3, 4)\n"
            "def example_inputs():\n    return torch.ones(1, 3)\n",
            "TypeError: example_inputs() takes 0 positional arguments but 1 was given",
        ),
        (
            "import torch\nclass Net(torch.nn.Sequential):\n    def __init__(self):\n"
            "        super().__init__(torch.nn.Linear(3, 4), torch.nn.Linear(5, 6))\n"
            "def example_inputs(batch):\n    return torch.ones(batch, 3)\n",
            "RuntimeError: a and b must have same reduction dim",
        ),
        (
            "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x, y):\n"
            "        return x + y\ndef example_inputs(batch):\n    return torch.ones(batch, 3)\n",
            "TypeError: Net.forward() missing 1 required positional argument: 'y'",
        ),
    ],
)
def test_a_failure_of_which_no_line_is_the_users_is_shown_without_a_traceback(
    joulelab, tmp_path, text, why
):
    """Calls that do not match, and modules of PyTorch alone, ended in a traceback of ours."""
    path = tmp_path / "broken.py"
    path.write_text(text)

    code, _, err = joulelab("estimate", "--model", f"{path}:Net", "--device", "h100")

    assert code == 2
    assert err.splitlines()[-2].endswith("broken.py failed:")
    assert err.splitlines()[-1].startswith(why)
    assert "Traceback" not in err


def test_the_start_of_a_models_name_is_completed(joulelab):
    _, _, err = joulelab("estimate", "--model", "detr", "--device", "h100")

    assert "Did you mean 'detr-resnet-101' or 'detr-resnet-50'?" in err


def test_memory_above_a_limit_ends_with_code_1(joulelab):
    question = ("memory", "--model", "resnet18", "--device", "l4", "--quick", "--max-memory-b")

    within, above = joulelab(*question, "1e9"), joulelab(*question, "1e6")

    assert within[0] == 0
    assert above[0] == 1
    assert "is above 1 MB" in above[2]


def test_an_operator_without_a_formula_is_named_with_its_bytes(joulelab, small):
    code, out, _ = joulelab(
        "estimate", "--model", f"{small}:Unknown", "--device", "h100", "--precision", "fp32",
        "--quick",
    )  # fmt: skip

    assert code == 0
    assert "No formula" in out
    assert "fft" in out
    assert "% of the bytes" in out


def test_strict_makes_it_an_error(joulelab, small):
    code, out, err = joulelab(
        "estimate", "--model", f"{small}:Unknown", "--device", "h100", "--precision", "fp32",
        "--strict",
    )  # fmt: skip

    assert code == 2
    assert out == ""
    assert "fft" in err


def test_nothing_is_written_when_the_request_fails(joulelab, tmp_path):
    code, _, _ = joulelab(
        "estimate", "--model", "resnet5O", "--device", "h100", "--out", tmp_path / "x.json"
    )

    assert code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "clocks"),
    [("600,1200", (600, 1200)), ("600:900:150", (600, 750, 900)), ("1000", (1000,))],
)
def test_clocks_are_a_list_or_a_range(words, clocks):
    assert clock_list(words) == clocks


@pytest.mark.parametrize("words", ["900:600:10", "600:900", "600:900:0"])
def test_a_range_of_clocks_that_makes_no_sense_is_refused(words):
    with pytest.raises(ConfigError):
        clock_list(words)


def test_knobs_are_numbers_truths_or_text():
    found = knob_values([("prompt-tokens=512",), ("scale=0.5", "cache=true", "kind=a=b")])

    assert found == {"prompt_tokens": 512, "scale": 0.5, "cache": True, "kind": "a=b"}


def test_spaces_around_commas_do_not_matter():
    assert numbers("1, 8 ,64", "batch") == (1, 8, 64)


@pytest.mark.parametrize("command", ["estimate-sweep", "memory"])
@pytest.mark.parametrize("suffix", ["json", "csv", "md", "html"])
def test_sweeps_and_memory_are_written_as_shown(joulelab, small, tmp_path, command, suffix):
    path = tmp_path / f"answer.{suffix}"

    code, _, err = joulelab(command, "--model", f"{small}:Small", "--device", "h100", "--out", path)

    assert code == 0, err
    text = path.read_text()
    assert "h100_sxm" in text if suffix in ("json", "csv") else "NVIDIA H100" in text


def test_a_sweep_in_csv_has_a_line_for_each_clock(joulelab, small, tmp_path):
    path = tmp_path / "sweep.csv"

    joulelab("estimate-sweep", "--model", f"{small}:Small", "--device", "h100", "--out", path)

    rows = read_csv_table(path)
    best = min(rows, key=lambda row: float(row["latency_s"]) * float(row["energy_j"]))
    assert [row["clock_mhz"] for row in rows if row["is_best"] == "1"] == [best["clock_mhz"]]
    assert sum(row["is_default"] == "1" for row in rows) == 1


@pytest.mark.parametrize(
    ("option", "kept", "broken"),
    [
        ("--max-latency-s", "1", "1e-6"),
        ("--max-energy-j", "10", "1e-6"),
        ("--max-power-w", "700", "1"),
        ("--max-memory-b", "1e9", "1"),
    ],
)
def test_a_limit_that_is_missed_is_said_and_shows_in_the_exit_code(
    joulelab, small, option, kept, broken
):
    words = ("estimate", "--model", f"{small}:Small", "--device", "h100", "--quick", option)

    assert joulelab(*words, kept)[0] == 0
    code, _, err = joulelab(*words, broken)
    assert code == 1
    assert "is above" in err
    assert joulelab(*words, "-1")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "--clock-mhz", "99999"),
        ("estimate", "--power-limit-w", "1"),
        ("estimate-sweep", "--clock-mhz", "99999"),
        ("estimate-sweep", "--power-limit-w", "1"),
        ("estimate-sweep", "--objective", "nothing"),
    ],
)
def test_what_a_device_cannot_do_is_refused_before_anything_is_traced(joulelab, small, words):
    command, *rest = words

    code, _, err = joulelab(command, "--model", f"{small}:Small", "--device", "h100", *rest)

    assert code == 2
    assert "Tracing" not in err


def test_a_filter_that_no_model_has_suggests_one(joulelab):
    code, _, err = joulelab("models", "vitt")

    assert code == 1
    assert "Did you mean 'vit'" in err
