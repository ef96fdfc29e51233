from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from coins import Coin, CoinSubject

from joulelab.errors import ConfigError, DeviceError
from joulelab.quality import evaluation
from joulelab.quality.base import Score
from joulelab.quality.continuations import Bleu
from joulelab.quality.evaluation import evaluate, varying
from joulelab.quality.predictions import KlDivergence, Perplexity, TokenAgreement
from joulelab.quality.subject import ScoreCache
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import mean_score

DATA = TextData(name="bytes", texts=("abcabcabcabc",))
PERPLEXITY, DIVERGENCE, AGREEMENT = Perplexity(), KlDivergence(), TokenAgreement()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinSettings:
    certainty: float = 0.8
    batch: int = 1
    broken: bool = False


class SetCoin(Coin):
    """A coin whose certainty is a setting of its own."""

    settings_type: ClassVar = CoinSettings


class SetSubject(CoinSubject):
    key = "certainty"

    @staticmethod
    def read_data(source):
        return DATA

    def certainty_of(self, settings):
        if settings.broken:
            raise DeviceError("The device is full.")
        return settings.certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class Wobbly(Perplexity):
    """Certainty times a factor that differs from text to text, more for the blunt coin."""

    name: ClassVar = "wobbly"
    direction: ClassVar = "higher"

    def score(self, observed, data, reference):
        certainty = np.exp(-observed[0].nats / observed[0].num_tokens)
        wobble = np.cos(np.arange(len(observed))) * (1 - certainty) / 4
        return mean_score((certainty * (1 + wobble - wobble.mean())).tolist(), "text")

    def pooled(self, samples):
        return float(np.mean(samples))


@pytest.fixture(autouse=True)
def _coins(monkeypatch):
    monkeypatch.setattr(evaluation, "SUBJECTS", {"coin": SetSubject})
    monkeypatch.setattr(evaluation, "WORKLOADS", {"coin": SetCoin})
    SetSubject.opened = []


@pytest.fixture
def ask(tmp_path):
    def rows(settings, metrics, data=DATA):
        return evaluate("coin", settings, metrics, data, cache=ScoreCache(tmp_path / "scores"))

    return rows


SHARP, BLUNT = CoinSettings(certainty=0.8), CoinSettings(certainty=0.4)


def test_scores_and_retentions_are_the_closed_forms(ask):
    rows = ask([SHARP, BLUNT], [PERPLEXITY, AGREEMENT])

    values = [(row.quality.score, row.quality.retention) for row in rows]
    assert np.allclose(values, [(1.25, 1.0), (1.0, 1.0), (2.5, 0.5), (1.0, 1.0)])
    assert [row.metric for row in rows] == ["perplexity", "token_agreement"] * 2
    assert {row.quality.reference for row in rows} == {"certainty=0.8"}


def test_a_score_is_made_once(ask):
    first = ask([SHARP, BLUNT], [PERPLEXITY, DIVERGENCE])

    second = ask([SHARP, BLUNT], [PERPLEXITY, DIVERGENCE])

    assert first == second
    assert SetSubject.opened == [0.8, 0.4]


def test_knobs_without_effect_on_outputs_share_their_scores(ask):
    ask([SHARP], [PERPLEXITY])

    ask([replace(SHARP, batch=64)], [PERPLEXITY])

    assert SetSubject.opened == [0.8]


@pytest.mark.parametrize(
    ("settings", "metric", "data"),
    [
        (SHARP, Perplexity(window_tokens=8, stride_tokens=4), DATA),
        (SHARP, PERPLEXITY, replace(DATA, texts=("abc",))),
        (BLUNT, PERPLEXITY, DATA),
    ],
)
def test_another_metric_data_set_or_network_is_another_score(ask, settings, metric, data):
    ask([SHARP], [PERPLEXITY])

    ask([settings], [metric], data)

    assert len(SetSubject.opened) == 2


def test_the_reference_is_asked_again_only_for_a_comparison_that_is_missing(ask):
    ask([SHARP, BLUNT], [PERPLEXITY, DIVERGENCE])

    ask([SHARP, BLUNT, CoinSettings(certainty=0.2)], [PERPLEXITY, DIVERGENCE])

    assert SetSubject.opened == [0.8, 0.4, 0.8, 0.2]


def test_another_reference_makes_another_comparison_but_no_other_perplexity(ask):
    ask([SHARP, BLUNT], [PERPLEXITY])
    ask([BLUNT, SHARP], [PERPLEXITY])
    assert SetSubject.opened == [0.8, 0.4]

    ask([SHARP, BLUNT], [DIVERGENCE])
    ask([BLUNT, SHARP], [DIVERGENCE])
    assert SetSubject.opened == [0.8, 0.4] * 2 + [0.4, 0.8]


def test_a_configuration_that_cannot_run_says_why_and_the_others_are_scored(ask):
    rows = ask([SHARP, replace(SHARP, broken=True, certainty=0.7), BLUNT], [PERPLEXITY])

    assert [row.quality is None for row in rows] == [False, True, False]
    assert rows[1].note == "The device is full."


def test_without_a_reference_there_is_no_share_and_no_comparison(ask):
    rows = ask([replace(SHARP, broken=True), BLUNT], [PERPLEXITY, DIVERGENCE])

    assert rows[2].quality.score == pytest.approx(2.5)
    assert rows[2].quality.retention is None
    assert "The reference has no score. The device is full." in rows[2].note
    assert rows[3].quality is None
    assert "The reference has no outputs. The device is full." in rows[3].note


def test_a_share_of_no_divergence_is_not_made_up(ask):
    rows = ask([SHARP, BLUNT], [DIVERGENCE])

    assert [row.quality.retention for row in rows] == [None, None]
    assert "share of a reference score of 0" in rows[1].note


def test_a_retention_has_an_interval_that_is_made_once_and_the_reference_has_none(ask):
    several = replace(DATA, texts=tuple("abc" * length for length in range(3, 15)))

    first, second = (ask([SHARP, BLUNT], [AGREEMENT, Wobbly()], several) for _ in range(2))

    assert first == second
    assert SetSubject.opened == [0.8, 0.4]
    assert first[1].quality.retention_low is None
    assert first[1].note == ""
    assert "parts 0 score otherwise than the reference's" in first[2].note
    kept = first[3].quality
    assert kept.retention == pytest.approx(0.5)
    assert 0.4 < kept.retention_low < 0.499
    assert 0.501 < kept.retention_high < 0.65


def test_a_damaged_entry_is_scored_anew(ask, tmp_path):
    expected = ask([SHARP], [PERPLEXITY])
    (entry,) = (tmp_path / "scores").iterdir()
    entry.write_text('{"value": 1}')

    assert ask([SHARP], [PERPLEXITY]) == expected
    assert SetSubject.opened == [0.8, 0.8]


def test_a_score_survives_the_trip_to_disk_to_the_last_bit(tmp_path):
    score = Score(value=1 / 3, n=7, counted="token", u=0.1 + 0.2)

    ScoreCache(tmp_path).keep("key", score)

    assert ScoreCache(tmp_path).find("key") == score


def test_a_metric_that_asks_for_more_than_the_workload_answers_is_refused(ask):
    with pytest.raises(ConfigError, match=r"bleu cannot be scored for coin; choose from .*perplex"):
        ask([SHARP], [Bleu()])


def test_what_varies_is_named():
    assert varying([SHARP, replace(BLUNT, batch=1)]) == ({"certainty": 0.8}, {"certainty": 0.4})
    assert varying([SHARP]) == ({},)
