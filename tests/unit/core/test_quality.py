from dataclasses import replace

import pytest
from synthetic_results import measurement

from joulelab.core.codec import to_json
from joulelab.core.quality import Quality, retention
from joulelab.errors import ConfigError, MeasurementError
from joulelab.tracking.store import measurement_from_json
from joulelab.tracking.vocabulary import metrics

PERPLEXITY = Quality(
    metric="perplexity", direction="lower", score=8.0, score_u=0.5, n=100, counted="token",
    retention=0.75, reference="precision=fp32", data="tiny", source_hash="ab",
)  # fmt: skip


@pytest.mark.parametrize(
    ("score", "reference", "direction", "kept"),
    [
        (30.0, 40.0, "higher", 0.75),
        (8.0, 6.0, "lower", 0.75),
        (44.0, 40.0, "higher", 1.1),
        (0.0, 40.0, "higher", 0.0),
    ],
)
def test_retention_is_a_share_of_the_reference_where_more_is_better(
    score, reference, direction, kept
):
    assert retention(score, reference, direction) == pytest.approx(kept)


@pytest.mark.parametrize("reference", [0.0, -0.5, float("nan"), float("inf")])
@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_nothing_is_a_share_of_a_bad_reference(reference, direction):
    with pytest.raises(MeasurementError, match="needs a positive one"):
        retention(1.0, reference, direction)


@pytest.mark.parametrize(
    ("score", "direction"), [(-0.1, "higher"), (0.0, "lower"), (float("nan"), "higher")]
)
def test_a_score_that_gives_no_share_is_refused(score, direction):
    with pytest.raises(MeasurementError, match="to be a share of a reference"):
        retention(score, 1.0, direction)


@pytest.mark.parametrize(
    ("field", "value"), [("direction", "up"), ("score", float("inf")), ("n", 0)]
)
def test_a_quality_that_cannot_be_is_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        replace(PERPLEXITY, **{field: value})


def test_a_measurement_reads_back_with_what_its_outputs_are_worth():
    written = replace(measurement(), quality=(PERPLEXITY,))

    assert measurement_from_json(to_json(written)) == written


def test_a_measurement_stored_without_quality_still_reads():
    text = to_json(measurement()).replace(',"quality":[]', "")

    assert '"quality"' not in text
    assert measurement_from_json(text) == measurement()


def test_a_metric_counts_once_in_a_measurement():
    with pytest.raises(ConfigError, match="one entry per metric"):
        replace(measurement(), quality=(PERPLEXITY, PERPLEXITY))


def test_the_vocabulary_lists_what_is_known_of_the_quality():
    unsure = replace(PERPLEXITY, metric="bleu", score_u=None, retention=None)

    listed = metrics(replace(measurement(), quality=(PERPLEXITY, unsure)))

    assert {name: value for name, value in listed.items() if name.startswith("quality")} == {
        "quality.perplexity.score": 8.0,
        "quality.perplexity.score_u": 0.5,
        "quality.perplexity.retention": 0.75,
        "quality.bleu.score": 8.0,
    }
