"""Attributions of a decode after contexts of several lengths."""

import json
from dataclasses import replace

import pytest
from planted_attributions import KNOBS, attribute

from joulelab.analysis.attributed.page import context_figure, page
from joulelab.analysis.attributed.table import WHOLE, content, context_table, frame, text
from joulelab.analysis.table import plain_cells
from joulelab.attribution.session import Session
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
    heads, rows = plain_cells(context_table(found.contexts))
    axes = context_figure(found.contexts).axes[0]
    parts = frame(found).to_pandas()
    of_long = parts[(parts["context_tokens"] == "1024") & (parts["level"] == "component")]
    each_j = found.contexts[1024].energy_j / found.contexts[1024].profile.work

    assert heads[1:] == ["128", "1024"]
    assert rows[-1][0] == WHOLE
    assert [label.get_text() for label in axes.get_xticklabels()] == ["128", "1024"]
    assert of_long["energy_per_unit_j"].sum() == pytest.approx(each_j)
    assert content(found)["contexts"][1]["energy_per_unit_j"] == each_j
    assert "Over the length of the context" in text(found)
    assert page(found).count("<svg") == 2 * len(found.phases) + 1


def test_what_is_noted_of_a_context_alone_names_it(found, monkeypatch):
    """Refused kernels were named twice, of other totals, and nothing told of what."""

    def attributed(_, configuration, *_more):
        tokens = dict(configuration.knobs).get("context_tokens") or 512
        return replace(found, notes=("Of all.", f"2 of {tokens} kernels."))

    monkeypatch.setattr(Session, "_attribute", attributed)
    llama = Configuration.of("llama", LlamaSettings())

    notes = Session.attribute(object.__new__(Session), llama, contexts=(128,)).notes

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
