import json

import pytest

from joulelab.cli.main import main
from joulelab.tracking.store import measurement_from_json

TINY = ("llama", "--model", "tiny", "--prompt-tokens", "8", "--new-tokens", "2")
SIMULATED = ("--device", "simulated", "--gpu", "h200_sxm", "--procedure.idle-s", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.txt"
    path.write_text("A short text, which is read.")
    return str(path)


@pytest.fixture
def quality(tmp_path, monkeypatch, capsys, data):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words, data=data):
        code = main(["quality", *words, "--data", str(data), "--store", str(tmp_path / "driver")])
        return code, *capsys.readouterr()

    return run


def test_score_retention_and_energy_stand_side_by_side(quality):
    code, out, _ = quality(*TINY, "--precisions", "fp32,bf16", *SIMULATED)

    assert code == 0
    assert "precision=bf16" in out
    assert "perplexity" in out
    assert "energy/token" in out
    assert out.count(" mJ") == 4  # two phases of two configurations
    assert max(map(len, out.splitlines())) <= 100  # it was 113
    assert "Random weights" in out
    assert "against precision=fp32" in " ".join(out.split())


def test_a_retention_stands_beside_its_interval_in_the_table_and_in_json(quality, tmp_path):
    texts = tmp_path / "texts.jsonl"
    lines = [json.dumps({"text": f"The {word} is read {word} times."}) for word in range(12)]
    texts.write_text("\n".join(lines))
    words = ("--precisions", "fp32,bf16", "--metrics", "perplexity", "--no-energy")

    _, table, _ = quality(*TINY, *words, data=texts)
    _, told, _ = quality(*TINY, *words, "--json", data=texts)

    reference, other = (each["quality"][0] for each in json.loads(told)["configurations"])
    assert reference["retention"] == 1
    assert reference["retention_low"] is None
    assert other["retention_low"] < other["retention"] < other["retention_high"]
    assert f" {other['retention_low']:.4f}" in table
    assert "95% interval" in table


def test_json_holds_measurements_that_carry_their_quality(quality):
    words = ("--precisions", "fp32,bf16", "--metrics", "token_agreement", "--json")

    _, out, _ = quality(*TINY, *words, *SIMULATED)

    told = json.loads(out)["configurations"]
    assert [each["knobs"] for each in told] == [{"precision": "fp32"}, {"precision": "bf16"}]
    assert told[0]["quality"][0]["score"] == 1.0
    measurement = measurement_from_json(json.dumps(told[1]["measurements"][0]))
    assert measurement.valid
    assert measurement.quality[0].retention == told[1]["quality"][0]["retention"]


def test_a_configuration_that_cannot_run_says_why_and_exits_with_1(quality):
    words = ("--precisions", "fp32,tf32", "--metrics", "perplexity", "--no-energy")

    code, out, _ = quality(*TINY, *words)

    assert code == 1
    assert "perplexity of precision=tf32: precision must be one that the CPU has" in " ".join(
        out.split()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gemm",), ", whisper, and not gemm."),
        (("llama", "--metrics", "perplexty"), "Did you mean 'perplexity'"),
        (("llama", "--metrics", "coherence", "--no-energy"), "coherence"),
        (("llama", "--metrics", "bleu", "--no-energy"), "bleu needs prompts"),
        (("llama", "--precisions", "bf61"), "Did you mean 'bf16'"),
        (("llama", "--vary", "bach=1,2"), "Did you mean 'batch'"),
        (("llama", "--metric", "stride_tokens=3"), "perplexity.KNOB=VALUE"),
        (("llama", "--metric", "perplexity.stride=3"), "Did you mean 'stride_tokens'"),
    ],
)
def test_a_bad_request_is_one_clear_line_and_exits_with_2(quality, words, said):
    code, out, err = quality(*words)

    assert code == 2
    assert out == ""
    assert said in err.strip().splitlines()[-1]


def test_a_device_that_is_not_there_is_told_before_anything_is_scored(quality):
    """Once after minutes of scoring."""
    code, out, err = quality(*TINY, "--device", "simulated", "--uuid", "GPU-none")

    assert code != 0
    assert "--no-energy" in err
    assert "Loading" not in out + err
