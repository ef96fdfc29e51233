"""What a search knows of the quality before anything is measured."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from coins import Coin, CoinSubject

from joulelab.core.quality import Quality
from joulelab.errors import ConfigError, DeviceError, UnknownNameError
from joulelab.quality import evaluation
from joulelab.quality.subject import ScoreCache
from joulelab.quality.text_data import TextData
from joulelab.searching import scores, space
from joulelab.searching.evidence import Kept
from joulelab.searching.scores import retention_u, score_space, scored_axes
from joulelab.searching.space import SearchSpace

CERTAINTY = {"fp32": 0.8, "bf16": 0.7, "int8": 0.4}
TEXTS = tuple(f"{number} abcabcabc" for number in range(12))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinSettings:
    precision: str = "fp32"
    batch: int = 1


class PricedCoin(Coin):
    """A coin whose certainty is that of its precision."""

    settings_type: ClassVar = CoinSettings


class PricedSubject(CoinSubject):
    key = "precision"

    @staticmethod
    def read_data(source):
        return TextData(name="bytes", texts=TEXTS)

    def certainty_of(self, settings):
        if settings.precision not in CERTAINTY:
            raise DeviceError(f"It lacks {settings.precision}.")
        return CERTAINTY[settings.precision]


@pytest.fixture(autouse=True)
def _coins(monkeypatch):
    for module in (evaluation, scores):
        monkeypatch.setattr(module, "SUBJECTS", {"coin": PricedSubject})
    for module in (evaluation, scores, space):
        monkeypatch.setattr(module, "WORKLOADS", {"coin": PricedCoin})
    PricedSubject.opened = []


def scored(tmp_path, precisions, batches=(1, 8, 64)):
    axes = {"sm_clock_mhz": (1410, 990), "batch": batches, "precision": precisions}
    made = SearchSpace("coin", axes)
    return made, score_space(made, cache=ScoreCache(tmp_path))


def test_outputs_are_scored_once_whatever_the_batch_and_the_clock(tmp_path):
    made, found = scored(tmp_path, ("fp32", "bf16", "int8"))

    assert sorted(PricedSubject.opened) == ["bf16", "fp32", "int8"]
    assert set(found.kept) == set(made.cells)
    kept = {dict(cell)["precision"]: each.retention for cell, each in found.kept.items()}
    assert kept == pytest.approx({"fp32": 1.0, "bf16": 0.7 / 0.8, "int8": 0.4 / 0.8})
    assert len({each.outputs for each in found.kept.values()}) == 3


def test_scores_come_from_the_cache_the_second_time(tmp_path):
    _, first = scored(tmp_path, ("fp32", "bf16"))
    PricedSubject.opened = []

    _, second = scored(tmp_path, ("fp32", "bf16"))

    assert PricedSubject.opened == []
    assert second == first


def test_formats_without_a_score_are_left_out_with_the_reason(tmp_path):
    made, found = scored(tmp_path, ("fp32", "fp8", "int8"))

    axes = scored_axes(made, found)

    assert axes["precision"] == ("fp32", "int8")
    assert axes["batch"] == (1, 8, 64)
    assert axes["sm_clock_mhz"] == (1410, 990)
    assert set(found.reasons.values()) == {"It lacks fp8."}
    assert set(made.restricted(axes).cells) <= set(found.kept)


def test_a_baseline_without_a_score_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="It lacks fp8"):
        scored(tmp_path, ("fp8", "bf16"))


def test_a_workload_without_outputs_to_score_is_refused(monkeypatch):
    monkeypatch.undo()

    with pytest.raises(UnknownNameError, match=r"Known: bert, .*, whisper"):
        score_space(SearchSpace("gemm", {"n": (256, 512)}))


def quality(low, high):
    return Quality(
        metric="accuracy",
        direction="higher",
        score=0.9,
        n=100,
        counted="image",
        data="digits",
        source_hash="",
        retention=0.99,
        retention_low=low,
        retention_high=high,
    )


def test_the_uncertainty_of_a_retention_is_that_of_the_longer_side_of_its_interval():
    assert retention_u(quality(0.99 - 1.96e-2, 0.995)) == pytest.approx(0.01, rel=1e-4)
    assert retention_u(quality(None, None)) is None


@pytest.mark.parametrize("wrong", [{"retention": -0.1}, {"retention": 1.0, "u": -1.0}])
def test_what_cannot_be_kept_is_refused(wrong):
    with pytest.raises(ConfigError, match="at least 0"):
        Kept(outputs="a", **wrong)
