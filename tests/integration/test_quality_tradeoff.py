"""Networks that are trained here lose quality with precision and with steps, as they should."""

from dataclasses import replace

import pytest

from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.evaluation import evaluate
from joulelab.quality.subject import ScoreCache
from joulelab.workloads import WORKLOADS, training
from joulelab.workloads.char_lm import least_perplexity

pytestmark = pytest.mark.slow


@pytest.fixture
def trained_briefly(monkeypatch):
    """Train for a third of a recipe's steps; what is claimed holds of such a network already."""
    whole = training.trained_state

    def state(recipe):
        return whole(replace(recipe, num_steps=recipe.num_steps // 3))

    monkeypatch.setattr(training, "trained_state", state)


def qualities(tmp_path, workload, metrics, variants):
    """Score a workload's variants; by metric, in their order."""
    settings = [WORKLOADS[workload].from_knobs(knobs).settings for knobs in variants]
    rows = evaluate(
        workload,
        settings,
        [METRICS[name].from_knobs({}) for name in metrics],
        SUBJECTS[workload].read_data(None),
        cache=ScoreCache(tmp_path),
    )
    assert all(row.quality is not None for row in rows)
    return {name: [row.quality for row in rows if row.metric == name] for name in metrics}


def precisions(*names):
    return [{"precision": name} for name in names]


@pytest.mark.usefixtures("trained_briefly")
def test_a_language_model_in_int4_is_more_surprised_and_agrees_less(tmp_path):
    found = qualities(
        tmp_path,
        "char-lm",
        ("perplexity", "kl_divergence", "token_agreement"),
        precisions("fp32", "bf16", "int4"),
    )

    exact, halved, quantised = found["perplexity"]
    assert least_perplexity() < exact.score < 1.1 * least_perplexity()
    assert exact.retention == 1
    assert halved.retention == pytest.approx(1, abs=0.005)
    assert quantised.score > exact.score
    assert quantised.retention == pytest.approx(exact.score / quantised.score)
    divergences = [each.score for each in found["kl_divergence"]]
    assert divergences[0] == pytest.approx(0, abs=1e-9)
    assert divergences == sorted(divergences)
    agreements = [each.score for each in found["token_agreement"]]
    assert agreements == sorted(agreements, reverse=True)


def test_a_vision_transformer_reads_digits_and_changes_its_mind_in_int4(tmp_path):
    found = qualities(
        tmp_path, "digits-vit", ("accuracy", "class_agreement"), precisions("fp32", "int8", "int4")
    )

    assert all(each.score > 0.85 for each in found["accuracy"])
    agreements = [each.score for each in found["class_agreement"]]
    assert agreements[0] == 1
    # Whether int8 changes a mind among so few images depends on the processor's own kernels.
    assert 0.9 < agreements[2] < agreements[1] <= 1
    assert found["class_agreement"][2].retention == agreements[2]


def test_an_lstm_that_sees_fewer_rows_reads_worse(tmp_path):
    found = qualities(
        tmp_path, "digits-lstm", ("accuracy",), [{"rows": rows} for rows in (8, 5, 3, 1)]
    )

    scores = [each.score for each in found["accuracy"]]
    assert scores[0] > 0.85
    assert scores == sorted(scores, reverse=True)
    assert found["accuracy"][-1].retention == pytest.approx(scores[-1] / scores[0])


@pytest.mark.usefixtures("trained_briefly")
@pytest.mark.parametrize("scheduler", ["ddim", "dpm++"])
def test_digits_drawn_in_fewer_steps_are_further_from_real_ones(tmp_path, scheduler):
    variants = [{"steps": steps, "scheduler": scheduler} for steps in (20, 4, 2)]

    found = qualities(tmp_path, "digits-diffusion", ("frechet_distance", "ssim"), variants)

    many, few, fewest = found["frechet_distance"]
    assert many.score < few.score < fewest.score
    assert fewest.score - many.score > 3 * (many.score_u + fewest.score_u)
    assert fewest.retention == pytest.approx(many.score / fewest.score)
    similarities = [each.score for each in found["ssim"]]
    assert similarities[0] == pytest.approx(1)
    assert similarities == sorted(similarities, reverse=True)


@pytest.mark.usefixtures("trained_briefly")
def test_digits_drawn_in_lower_precision_depart_from_the_reference(tmp_path):
    variants = [{"steps": 4, **each} for each in precisions("fp32", "int8", "int4")]

    found = qualities(tmp_path, "digits-diffusion", ("ssim",), variants)

    exact, eight, four = (each.score for each in found["ssim"])
    assert exact == pytest.approx(1)
    assert four < eight < 1
