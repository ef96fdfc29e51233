"""Attributions of a program with other settings."""

import json
from dataclasses import replace

import pytest
from planted_attributions import attribute

from joulelab.analysis.attributed.numbers import content, frame
from joulelab.analysis.attributed.page import beside_figure, metrics_of, page
from joulelab.analysis.attributed.table import beside, beside_table, text
from joulelab.analysis.table import plain_cells
from joulelab.attribution.variants import Variant, variants_of
from joulelab.cli.main import main
from joulelab.errors import ConfigError

KNOBS = {"model": "bloom-560m", "batch": 1, "new_tokens": 8, "prompt_tokens": 64}
VARY = {"batch": (1, 16)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("variants"), "classes", KNOBS, vary=VARY)[0]


def gaps_j(phase):
    return phase.gaps.energy_j / phase.profile.work


def test_a_larger_batch_shares_gaps_and_weights_among_its_tokens(found):
    phases = found.varied("decode")

    assert list(phases) == ["batch=1", "batch=16"]
    assert phases["batch=1"] is found.phase("decode")
    assert gaps_j(phases["batch=16"]) < 0.2 * gaps_j(phases["batch=1"])


def test_settings_that_the_program_has_are_attributed_once(found):
    assert [str(variant) for variant, _ in found.variants] == ["batch=16"]


def test_settings_are_told_in_tables_charts_and_numbers(found):
    over = beside(found)
    heads, rows = plain_cells(beside_table(over["Decode over settings"]))
    labels = beside_figure(over["Decode over settings"], "decode").axes[0].get_xticklabels()
    parts = frame(found).to_pandas()
    own = parts[(parts["settings"] == "batch=16") & (parts["level"] == "component")]
    varied = found.varied("decode")["batch=16"]
    each_j = varied.energy_j / varied.profile.work

    assert list(over) == ["Prefill over settings", "Decode over settings"]
    assert heads[1:] == ["batch=1", "batch=16"] == [label.get_text() for label in labels]
    assert len(rows) > 5
    assert own[own["phase"] == "decode"]["energy_per_unit_j"].sum() == pytest.approx(each_j)
    assert content(found)["variants"][1]["energy_per_unit_j"] == each_j
    assert content(found)["variants"][1]["knobs"] == {"batch": 16}
    assert "Decode over settings" in text(found)
    assert page(found).count("<svg") == 3 * len(found.phases)


def test_what_variants_take_are_metrics_of_the_run(found):
    varied = found.varied("decode")["batch=16"]

    each_j = metrics_of(found)["decode.batch_16.energy_per_unit_j"]

    assert each_j == varied.energy_j / varied.profile.work


def test_parts_that_contradict_the_meter_in_a_variant_are_no_agreement(found):
    ((variant, phases),) = found.variants
    bad = (phases[0], replace(phases[1], deviation=9.0))

    assert found.is_reconciled
    assert not replace(found, variants=((variant, bad),)).is_reconciled


def test_all_combinations_of_settings_are_variants():
    found = variants_of((8,), {"batch": (1, 8), "precision": ("fp16", "bf16")})

    assert [str(each) for each in found] == [
        "8 tokens in the cache",
        "batch=1, precision=fp16",
        "batch=1, precision=bf16",
        "batch=8, precision=fp16",
        "batch=8, precision=bf16",
    ]
    assert variants_of() == ()
    assert Variant(knobs={"context_tokens": 8}).context_tokens is None


def test_a_setting_without_values_is_refused():
    with pytest.raises(ConfigError, match="batch must vary over one value"):
        variants_of((), {"batch": ()})


WORDS = ["attribute", "--device", "simulated", "--gpu", "a100_sxm", "--observe-only", "--json"]


def test_the_command_takes_settings_and_refuses_those_that_there_are_not(tmp_path, capsys):
    options = ["--store", str(tmp_path), "--method", "classes", "--vary", "batch=1,2"]
    program = ["bloom", "--model", "tiny", "--new-tokens", "2", "--batch", "1"]

    assert main([*WORDS, *options, *program]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["knobs"] for one in found["variants"]] == [{"batch": 2}] * 2
    assert main([*WORDS, *options[:-1], "bach=1,2", *program]) == 2
    assert "bach" in capsys.readouterr().err
