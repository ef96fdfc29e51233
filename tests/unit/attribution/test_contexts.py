"""Attributions of a decode after contexts of several lengths."""

import json
from dataclasses import replace

import pytest
from planted_attributions import KNOBS, attribute

from joulelab.analysis.attributed.generation import answers
from joulelab.analysis.attributed.numbers import content, frame
from joulelab.analysis.attributed.page import answer_figure, beside_figure, page
from joulelab.analysis.attributed.table import (
    WHOLE,
    answer_table,
    beside,
    beside_table,
    text,
)
from joulelab.analysis.table import plain_cells
from joulelab.attribution.session import Session
from joulelab.attribution.variants import variants_of
from joulelab.cli.main import main
from joulelab.core.configuration import Configuration
from joulelab.workloads.llama import LlamaSettings

CONTEXTS = (128, 1024)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return attribute(tmp_path_factory.mktemp("contexts"), "classes", contexts=CONTEXTS)[0]


def energies_j(phase):
    return {share.name: share.energy_j for share in phase.by_component}


def test_what_reads_the_cache_grows_with_the_context_and_the_rest_does_not(found):
    short, long = (energies_j(found.contexts[tokens]) for tokens in CONTEXTS)

    assert tuple(found.contexts) == CONTEXTS
    assert long["attention core"] > 1.1 * short["attention core"]
    assert long["KV cache"] > 1.5 * short["KV cache"]
    assert long["feed-forward"] == pytest.approx(short["feed-forward"], rel=0.1)


def test_a_context_that_the_prompt_has_takes_what_the_decode_does(found):
    """512 tokens of prompt lie between 128 and 1024 of context."""
    short, own, long = (
        energies_j(phase)["KV cache"]
        for phase in (found.contexts[128], found.phase("decode"), found.contexts[1024])
    )

    assert short < own < long


def test_contexts_are_told_in_a_table_a_chart_and_numbers(found):
    ((title, phases),) = beside(found).items()
    heads, rows = plain_cells(beside_table(phases))
    axes = beside_figure(phases, title).axes[0]
    parts = frame(found).to_pandas()
    of_long = parts[(parts["context_tokens"] == "1024") & (parts["level"] == "component")]
    each_j = found.contexts[1024].energy_j / found.contexts[1024].profile.work

    assert heads[1:] == ["128", "1024"]
    assert rows[-1][0] == WHOLE
    assert [label.get_text() for label in axes.get_xticklabels()] == ["128", "1024"]
    assert of_long["energy_per_unit_j"].sum() == pytest.approx(each_j)
    assert content(found)["contexts"][1]["energy_per_unit_j"] == each_j
    assert "over the length of the context" in text(found)
    assert page(found).count("<svg") == 2 * len(found.phases) + 2


def test_an_answer_takes_its_prompt_and_its_tokens_after_ever_longer_contexts(found):
    """16 tokens after 512 of prompt, and 1040 of which the last 16 come after 1024."""
    short, long = answers(found)
    token_j = {name: phase.energy_j / phase.profile.work for name, phase in _decodes(found).items()}
    prefill = found.phase("prefill")
    rising_j = (1040 - 520 - 8) * (token_j["512"] + token_j["1024"]) / 2 + 8 * token_j["1024"]

    assert (short.tokens, long.tokens) == (16, 528)
    assert short.prompt_j == pytest.approx(512 * prefill.energy_j / prefill.profile.work)
    assert short.energy_j - short.prompt_j == pytest.approx(16 * token_j["512"], rel=2e-3)
    assert long.energy_j - long.prompt_j == pytest.approx(8 * token_j["512"] + rising_j, rel=2e-3)
    assert long.parts["KV cache"][0] > 33 * (short.parts["KV cache"][0])


def _decodes(found):
    return {"512": found.phase("decode"), "1024": found.contexts[1024]}


def test_answers_are_told_in_a_table_a_chart_and_numbers(found):
    longer = answers(found)
    heads, rows = plain_cells(answer_table(longer))
    labels = answer_figure(longer).axes[0].get_xticklabels()

    assert heads[1:] == ["16", "528"]
    assert [row[0] for row in rows[-2:]] == [WHOLE, "of it the prompt"]
    assert float(rows[-2][2]) > float(rows[-2][1]) > float(rows[-1][1])
    assert [label.get_text() for label in labels] == ["16", "528"]
    assert content(found)["answers"][1]["energy_j"] == longer[1].energy_j
    assert "An answer in all" in text(found)


def test_no_answer_is_told_where_no_context_was_asked_for(found):
    assert answers(replace(found, variants=())) == ()


def test_what_is_noted_of_a_context_alone_names_it(found, monkeypatch):
    """Refused kernels were named twice, of other totals, and nothing told of what."""

    def attributed(_, configuration, *_more):
        tokens = dict(configuration.knobs).get("context_tokens") or 512
        return replace(found, notes=("Of all.", f"2 of {tokens} kernels."))

    monkeypatch.setattr(Session, "_attribute", attributed)
    llama = Configuration.of("llama", LlamaSettings())

    notes = Session.attribute(object.__new__(Session), llama, variants=variants_of((128,))).notes

    of_context = "With 128 tokens in the cache: 2 of 128 kernels."
    assert notes == ("Of all.", "2 of 512 kernels.", of_context)


def test_a_kernel_that_was_replayed_is_not_replayed_again(tmp_path):
    told = []
    knobs = {"model": "tiny", "new_tokens": 2}
    found, _ = attribute(tmp_path, knobs=knobs, contexts=(64,), report=told.append)

    replayed = [step.partition(": ")[2] for step in told if step.startswith("Replaying kernel")]
    assert len(replayed) == len(set(replayed)) > len(found.replays)


WORDS = ["attribute", "--device", "simulated", "--gpu", "a100_sxm", "--observe-only", "--json"]


def test_the_command_takes_contexts(tmp_path, capsys):
    options = ["--store", str(tmp_path), "--method", "classes", "--contexts", "16", "64"]

    assert main([*WORDS, *options, "bloom", "--model", "tiny", "--new-tokens", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["context_tokens"] for one in found["contexts"]] == [16, 64]


@pytest.mark.parametrize(("program", "why"), [("vit", "context_tokens"), ("bloom", "at most 2048")])
def test_what_has_no_such_context_is_refused_before_anything_is_measured(
    tmp_path, capsys, program, why
):
    options = ["--store", str(tmp_path), "--contexts", "4096"]

    assert main([*WORDS, *options, program]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert "Preparing" not in told


def test_knobs_of_the_program_stay_as_they_were(found):
    assert found.knobs["context_tokens"] is None
    assert found.knobs["batch"] == KNOBS["batch"]
