"""Intervals of retentions against closed forms, and where there is none."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import poisson

from joulelab.core.statistics import student_t
from joulelab.errors import MeasurementError
from joulelab.quality import METRICS
from joulelab.quality.base import Boxes, Score
from joulelab.quality.image_data import DetectionData, ImageData
from joulelab.quality.images import Fid, FrechetDistance, Ssim
from joulelab.quality.predictions import KlDivergence, Perplexity, Surprise
from joulelab.quality.recognition import ClassAgreement, MeanAveragePrecision
from joulelab.quality.subject import ScoreCache
from joulelab.quality.uncertainty import grouped_score, mean_score, retention_interval


def draws(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n)


def images(values):
    return mean_score(list(values), "image")


REFERENCE = 1 + 0.2 * draws(400)


def test_the_interval_of_a_mean_is_that_of_the_logarithm_of_a_ratio():
    """To first order the variance of a ratio of means is that of the difference of pairs."""
    ours = 0.9 * REFERENCE + 0.1 * draws(400, seed=1)
    ratio = ours.mean() / REFERENCE.mean()
    spread = np.std(ours - ratio * REFERENCE, ddof=1) / REFERENCE.mean()
    half = student_t(0.95, 400) * spread / 20

    low, high = retention_interval(Ssim(), images(ours), images(REFERENCE))

    assert (low, high) == pytest.approx((ratio - half, ratio + half), abs=0.15 * half)


def test_samples_are_drawn_in_pairs():
    """What both find hard cancels, and nothing does where the pairs are broken."""
    ours = 0.9 * REFERENCE + 0.01 * draws(400, seed=1)
    broken = np.random.default_rng(2).permutation(ours)

    widths = [
        np.ptp(retention_interval(Ssim(), images(each), images(REFERENCE)))
        for each in (ours, broken)
    ]

    assert widths[0] < widths[1] / 5


def test_nineteen_in_twenty_intervals_hold_the_truth():
    held = 0
    for seed in range(40):
        shared, own = draws(60, seed), draws(60, seed + 1000)
        low, high = retention_interval(
            Ssim(), images(0.8 + 0.1 * shared + 0.05 * own), images(1 + 0.1 * shared)
        )
        held += low <= 0.8 <= high

    assert 34 <= held <= 40  # of 40, 38 are expected and fewer than 34 once in 100


@pytest.mark.slow
def test_few_parts_ask_for_wider_intervals():
    """Of ten parts 86 % of 95 % intervals held the truth: means drawn anew scatter too little."""
    held = 0
    for seed in range(150):
        shared, own = draws(10, seed), draws(10, seed + 1000)
        low, high = retention_interval(
            Ssim(), images(0.8 + 0.1 * shared + 0.05 * own), images(1 + 0.1 * shared)
        )
        held += low <= 0.8 <= high

    assert held / 150 >= 0.91


@pytest.mark.slow
def test_few_parts_that_changed_ask_for_wider_intervals():
    """Of 200 examples four came out otherwise, two better and two worse in the mean: 90 % of 95 %
    intervals held the truth, as if the scatter of four were known from 200. A single one made an
    interval that was sure of a loss, or of a gain."""
    held = made = 0.0
    for worse, better in product(range(7), repeat=2):
        if worse + better > 1:
            ours, theirs = (1.0 * (np.arange(200) >= num) for num in (worse, better))
            low, high = retention_interval(Ssim(), images(ours), images(theirs[::-1]))
            probability = float(poisson.pmf(worse, 2) * poisson.pmf(better, 2))
            held, made = held + probability * (low <= 1 <= high), made + probability

    assert made > 0.89
    assert 0.94 <= held / made <= 0.97


def test_changed_parts_make_an_interval_as_wide_as_their_number_asks_for():
    """Eight losses in 2000 scatter like chi squared of 16 degrees of freedom, not of 1999."""
    ours = np.where(np.arange(2000) < 8, 0.0, 1.0)

    low, high = retention_interval(Ssim(), images(ours), images(np.ones(2000)))

    half = student_t(0.95, 17) * np.std(ours, ddof=1) / np.sqrt(2000)
    assert high - low == pytest.approx(2 * half, rel=0.1)
    assert high - low > 1.05 * 2 * 1.96 * half / student_t(0.95, 17)


def surprises(nats):
    return Perplexity().score([Surprise(each, 1) for each in nats], None, None)


def test_less_surprise_than_the_reference_is_more_than_its_whole_quality():
    """Lower is better: the reference's perplexity over the configuration's."""
    nats = 2 + 0.3 * draws(100)
    better = surprises(nats - 0.1 + 0.01 * draws(100, seed=1))

    low, high = retention_interval(Perplexity(), better, surprises(nats))

    assert 1 < low < np.exp(0.1) < high < 1.12


def test_longer_texts_weigh_more():
    samples = ((10.0, 10), (40.0, 20))

    assert KlDivergence().pooled(samples) == pytest.approx(50 / 30)
    assert Perplexity().pooled(samples) == pytest.approx(np.exp(50 / 30))


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        (images(REFERENCE[:9]), images(1.1 * REFERENCE[:9]), "at least 10 independent parts"),
        (images(REFERENCE), images(REFERENCE), "of 400 parts 0 score otherwise"),
        (images([0.9, *REFERENCE[1:]]), images(REFERENCE), "of 400 parts 1 score otherwise"),
        (images(REFERENCE[:99]), images(REFERENCE), "pairs are needed, and 99"),
        (replace(images(REFERENCE), samples=()), images(REFERENCE), "as a whole"),
        (images(REFERENCE), images([0.0] * 399 + [1.0]), "some have no retention"),
    ],
)
def test_where_resampling_says_nothing_there_is_no_interval(ours, theirs, why):
    with pytest.raises(MeasurementError, match=f"No interval: .*{why}"):
        retention_interval(Ssim(), ours, theirs)


def test_fid_has_no_interval_and_says_why():
    score = Score(value=3.0, n=50, counted="image")

    with pytest.raises(MeasurementError, match="2048 features"):
        retention_interval(Fid(), score, score)


def test_copies_of_one_thing_count_as_one():
    """Copies that are alike tell nothing new: the interval is that of the things themselves."""
    ours, theirs = 0.9 * REFERENCE[:50] + 0.05 * draws(50, seed=1), REFERENCE[:50]
    metric, groups = ClassAgreement(), np.tile(np.arange(50), 4)
    once = [grouped_score(each, "image", None) for each in (ours, theirs)]
    copied = [grouped_score(np.tile(each, 4), "image", groups) for each in (ours, theirs)]

    assert copied[0].value == pytest.approx(once[0].value)
    assert copied[0].n == 200
    assert copied[0].u == pytest.approx(once[0].u)
    assert retention_interval(metric, *copied) == pytest.approx(retention_interval(metric, *once))


# A distance between sets


class Plain:
    """Takes pixels themselves for features."""

    name = "plain"

    def features(self, pictures):
        return pictures.reshape(len(pictures), -1)


def test_the_interval_of_a_frechet_distance_leaves_one_out_and_holds_the_ratio_of_shifts():
    """Of a set that is shifted the distance is the square of the shift, times its pixels."""
    made = np.random.default_rng(0).standard_normal((60, 1, 2, 2)).astype(np.float32)
    data = ImageData(name="some", prompts=("",) * 60, images=tuple(made), judge=Plain())
    metric = FrechetDistance(num_resamples=2)
    ours, theirs = (metric.score(made + shift, data, None) for shift in (2.0, 1.0))

    low, high = retention_interval(metric, ours, theirs)

    assert len(ours.samples) == 60
    assert low < 0.25 < high
    assert high - low < 0.2


# Objects


def objects(offset_px, n=12):
    corners = np.array([[10.0, 10, 50, 50], [60, 60, 90, 95]])
    labels, scores = np.array([0, 1]), np.array([0.9, 0.8])
    found = [
        Boxes(corners_px=corners + offset_px * (index % 3), labels=labels, scores=scores)
        for index in range(n)
    ]
    real = [Boxes(corners_px=corners, labels=labels)] * n
    return found, DetectionData(name="boxes", images=[np.zeros((3, 8, 8))] * n, objects=real)


def test_images_are_drawn_anew_for_a_mean_average_precision(tmp_path):
    pytest.importorskip("faster_coco_eval")
    metric = METRICS["mean_average_precision"].from_knobs({})
    found, data = objects(4.0)
    ours, theirs = metric.score(found, data, None), metric.score(objects(0.0)[0], data, None)

    ScoreCache(tmp_path).keep("key", ours)
    kept = ScoreCache(tmp_path).find("key")

    assert kept == ours
    assert MeanAveragePrecision().pooled(kept.samples) == pytest.approx(ours.value)
    low, high = retention_interval(metric, kept, theirs)
    assert low < ours.value / theirs.value < high <= 1
