"""Estimates whose sums are known, as the terminal shows them."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from estimates_by_hand import (
    COPY,
    EVENTS,
    MEMORY,
    PRODUCT,
    cell,
    estimate,
    phase,
    processor,
    refused,
)
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from joulelab.analysis.estimates.detail import (
    bar,
    coarse,
    detail,
    fits_table,
    memory_table,
    skyline,
    stacked_bar,
)
from joulelab.analysis.estimates.kernels import (
    alike,
    alike_name,
    event_table,
    event_tree,
    group_table,
    short,
)
from joulelab.analysis.estimates.overview import answer, answers, contrast_table, overview, ranked
from joulelab.analysis.estimates.wording import (
    bound_shares,
    confidence_words,
    headline,
    memory_words,
    unknown_words,
)
from joulelab.estimator.api import Fit
from joulelab.estimator.estimate import Confidence, EnergySplit, Event
from joulelab.estimator.question import Opportunity
from joulelab.hardware.processors import PROCESSORS

TOO_LARGE = replace(MEMORY, weight_b=92e9)  # 107 GB of 80 GB


def printed(renderable, width=100):
    console = Console(width=width, file=StringIO(), highlight=False)
    console.print(renderable(console) if callable(renderable) else renderable)
    return console.file.getvalue()


def test_the_first_sentence_says_what_it_costs_per_unit_and_what_sets_the_time():
    said = headline(cell())

    assert said == (
        "network on Invented Board, fp16, batch 8, eager: 1.25 ms/image, 250 mJ/image at 200 W. "
        "80% of the time is set by waiting for launches."
    )


def test_bound_shares_weigh_phases_by_their_time():
    copying = phase("copying", groups=(COPY,), latency_s=30e-3)

    shares = bound_shares((phase(), copying))

    assert shares == {"memory": pytest.approx(0.8), "launch": pytest.approx(0.2)}
    assert list(shares) == ["memory", "launch"]


def test_what_does_not_fit_says_by_how_much():
    assert memory_words(TOO_LARGE) == ("does not fit: needs 27 GB more than the 80 GB there are")
    assert memory_words(MEMORY) == "fits: needs 35 GB of 80 GB"


@pytest.mark.parametrize(
    ("confidence", "said"),
    [
        (
            Confidence(tier="A", time_error=0.12, energy_error=0.1, num_points=36),
            "Confidence A, calibrated on this device; mean error 12% of time and 10% of energy "
            "over 36 held-out measurements.",
        ),
        (
            Confidence(tier="B", time_error=0.5, num_points=9, on_unknown_host=True),
            "Confidence B, the host is not known; mean error 50% of time over 9 held-out "
            "measurements.",
        ),
        (
            Confidence(tier="D", note="there is no silicon"),
            "Confidence D, projected; never compared with a measurement. There is no silicon.",
        ),
    ],
)
def test_confidence_is_a_tier_with_its_held_out_error(confidence, said):
    assert confidence_words(confidence) == said


def test_operators_without_a_formula_are_named_with_their_share_of_bytes():
    said = unknown_words(estimate(without_formula={"fft_c2r": 0.004, "lstm": 0.031}))

    assert "lstm (3.1% of the bytes), fft_c2r (0.4% of the bytes)" in said
    assert "--strict" in said
    assert unknown_words(estimate()) == ""


def test_an_operator_that_moves_all_bytes_is_said_to():
    """It read "1e+02 % of the bytes"."""
    assert "fft (100.0% of the bytes)" in unknown_words(estimate(without_formula={"fft": 1.0}))


def test_one_estimate_is_shown_in_full():
    text = printed(detail(cell()))

    assert re.search(r"compute █{10} +50% +1 J ", text)
    assert re.search(r"launch █{16} +80% 8 ms", text)
    assert "300 W of 400 W; the cap holds the clock down 25% of the time" in text
    assert "weights 20 GB, activations 8 GB, KV cache 4 GB, inputs 1 GB" in text
    assert "gradients" not in text
    assert "from 1.4 J (zeros) to 2 J (random)" in text
    assert "Confidence B" in text


def test_opportunities_are_shown_with_what_they_save_and_cost():
    chance = Opportunity(
        title="Run at 500 MHz",
        change={"sm_clock_mhz": 500},
        energy_saved=0.43,
        time_saved=-0.02,
        reason="it waits",
    )

    text = printed(detail(replace(cell(), opportunities=(chance,))))

    assert re.search(r"Run at 500 MHz +-43% energy +\+2% time +it waits", text)


def test_an_overview_has_a_line_per_phase_and_says_what_is_wrong_below():
    large = cell(
        estimate(phases=(phase("prefill"), phase("decode", memory=TOO_LARGE))),
        on=processor("other"),
    )

    text = printed(lambda console: overview([cell(), large, refused()], console))

    assert re.search(r"other +fp16 +prefill +1.25 ms +250 mJ +200\^", text)
    assert re.search(r"decode +1.25 ms +250 mJ.*107 GB!", text)
    assert "! network on Other Board, fp16, batch 8 does not fit: needs 27 GB more" in text
    assert "fp8, batch 8: the processor has no fp8; it has: fp32, fp16." in text.replace("\n", " ")
    assert text.count("Confidence B") == 2


@pytest.mark.parametrize("width", [140, 100, 80, 70])
def test_a_narrow_terminal_loses_columns_and_never_digits(width):
    cells = [cell(batch=batch, on=processor("a_long_device_name")) for batch in (1, 64)]

    text = printed(lambda console: overview(cells, console), width)

    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert text.count("250 mJ") == 2


def slower(key, factor, tier="B"):
    energy = EnergySplit(compute_j=1.0 / factor, memory_j=0.5 / factor, static_j=0.5 / factor)
    found = estimate(
        phases=(phase(latency_s=10e-3 * factor, energy=energy),), confidence=Confidence(tier=tier)
    )
    return cell(found, on=processor(key))


def test_the_answer_names_the_most_frugal_and_the_fastest():
    said = answer([slower("fast", 1), slower("frugal", 4)])

    assert said == ("Least energy: frugal with 62.5 mJ/image. Least time: fast with 1.25 ms/image.")


def test_a_fastest_device_known_from_its_data_sheet_alone_says_so():
    """The least time was of a device of tier C, and only the least energy had a caveat."""
    said = answer([slower("sheet", 1, tier="C"), slower("known", 2)])

    assert said == (
        "Least energy: known with 125 mJ/image. Least time: sheet with 1.25 ms/image "
        "(confidence C, from its data sheet alone)."
    )


def test_a_projected_device_never_wins_over_one_that_exists():
    said = answer([slower("real", 1), slower("projected", 4, tier="D")])

    assert said.startswith("Least energy: real with 250 mJ/image, the fastest too")
    assert said.endswith("projected is projected at 62.5 mJ/image.")


def test_of_those_that_take_the_same_time_none_is_the_fastest():
    """The most frugal was called the fastest too where another took the same time."""
    found = answer([slower("one", 1), slower("other", 1)])

    assert found == "Least energy: one with 250 mJ/image, none faster, with 1.25 ms/image."


def test_estimates_that_differ_by_less_than_they_count_are_equally_fast():
    """Of three GPUs behind one host the first was called fastest, by a thousandth."""
    cells = [slower("one", 1), slower("other", 1.001), slower("frugal", 4)]

    assert "Least time: one and other with 1.25 ms/image" in answer(cells)
    assert "one and 2 others with" in answer([*cells, slower("third", 1.002)])
    assert "none faster, with 1.25 ms/image" in answer(cells[:2])


def test_a_winner_known_from_its_data_sheet_alone_says_so_and_who_is_first_of_the_others():
    """A device of tier C headed the comparison without a caveat."""
    cells = [slower("sheet", 4, tier="C"), slower("known", 2, tier="A"), slower("class", 3)]

    said = answer(cells)

    assert said.startswith("Least energy: sheet with 62.5 mJ/image")
    assert "of confidence C, from its data sheet alone" in said
    assert "class needs least, 83.3 mJ/image (confidence B). Least time" in said
    assert "confidence" not in answer(cells[1:2] * 2)


def test_what_does_not_fit_is_no_answer():
    large = cell(estimate(phases=(phase(memory=TOO_LARGE),)), on=processor("large"))

    assert answer([large, cell(), slower("frugal", 2)]).startswith("Least energy: frugal")
    assert [c.processor.key for c in ranked([refused(), large, cell()])][:2] == [
        "invented",
        "large",
    ]


def test_models_are_answered_apart():
    other = [replace(cell(batch=batch), model="other") for batch in (1, 2)]

    said = answers([cell(batch=1), cell(batch=2), *other])

    assert [one.partition(":")[0] for one in said] == ["network", "other"]


def test_devices_are_contrasted_as_factors_of_the_best():
    text = printed(contrast_table([slower("fast", 1), slower("frugal", 4)]))

    assert re.search(r"fast +4 +█{10} +1 +██", text)
    assert re.search(r"frugal +1 +██▌ +4 +█{10}", text)
    assert contrast_table([cell(), refused()]) is None


def test_events_make_a_tree_whose_branches_sum_to_their_parents():
    root = event_tree(EVENTS)

    assert root.energy_j == pytest.approx(2.0)
    assert {n: c.energy_j for n, c in root.children.items()} == pytest.approx(
        {"compute": 1.0, "memory": 0.5, "static": 0.5}
    )
    assert list(root.children["compute"].children) == ["matrix units, mma", "operands, registers"]


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
                          st.floats(0, 1e3)), max_size=20))  # fmt: skip
def test_no_energy_is_lost_in_the_tree(found):
    events = [
        Event(
            path="/".join(["compute", *path, f"leaf{i}"]), count=1, unit="bytes", energy_j=energy_j
        )
        for i, (path, energy_j) in enumerate(found)
    ]

    def leaves(node):
        if not node.children:
            return node.energy_j
        return sum(map(leaves, node.children.values()))

    root = event_tree(events)
    assert leaves(root) == pytest.approx(sum(e.energy_j for e in events), rel=1e-9, abs=1e-12)


def test_the_event_table_shows_shares_counts_and_kappa():
    text = printed(event_table(EVENTS, title="Events"))

    assert re.search(r"matrix units, mma +█+ +37.5% +750 mJ +4 M instructions", text)
    assert re.search(r"DRAM +█+.? +15.0% +300 mJ +1 GB", text)
    assert "kappa: compute 4, memory 4, static 4" in text


def test_groups_that_do_the_same_work_share_a_line():
    twin = replace(PRODUCT, name="layer9.fc: addmm", module="layer9.fc")

    found = alike([PRODUCT, COPY, twin])

    assert [alike_name(one) for one in found] == ["layer1.fc: addmm +1", "layer2: clone"]
    text = printed(group_table(replace(phase(), groups=(PRODUCT, COPY, twin))))
    assert re.search(r"layer1.fc: addmm \+1 +800 G +2 GB +16 ms +3.3 J", text)


def test_the_group_table_puts_the_costliest_first_and_sums_the_rest():
    text = printed(group_table(phase(), max_rows=1))

    assert re.search(r"layer1.fc: addmm +400 G +1 GB +8 ms +1.65 J .* 82% .*launch", text)
    assert re.search(r"1 others +0 +1.8 GB +2 ms +350 mJ .* 18%", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fc: addmm", "fc: addmm"),
        ("layer1.0.conv1: convolution + relu", "…1.0.conv1: convolutio…"),
        ("model.layers.0.mlp.gate_proj: mm", "…rs.0.mlp.gate_proj: mm"),
        ("a_very_long_operator_without_module", "a_very_long_operator_w…"),
    ],
)
def test_long_names_keep_the_end_of_the_module(name, text):
    assert short(name, 23) == text


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_share(share, width):
    drawn = bar(share, width=width).plain

    eighths = sum(8 if c == "█" else 8 - "▉▊▋▌▍▎▏".index(c) - 1 for c in drawn if c != " ")
    assert len(drawn) == width
    assert eighths == pytest.approx(8 * width * share, abs=0.5)


def test_a_stacked_bar_is_readable_without_colours():
    assert stacked_bar(phase().energy, width=8).plain == "████▓▓░░"


def test_the_memory_table_shows_parts_and_the_course():
    text = printed(memory_table("forward", MEMORY))

    assert re.search(r"weights +█{17}▏ +57% +20 GB", text)
    assert "25 GB to 35 GB over its operators" in text


def test_memory_of_several_phases_names_the_one_that_needs_most():
    """A language model had "KV cache 0 B", of its prefill, and the table did not say so."""
    prefill, decode = (replace(MEMORY, weight_b=weight_b) for weight_b in (21e9, 20e9))
    one = Fit(
        model="llama", processor=PROCESSORS["h200_sxm"], precision="fp16", batch=1,
        phases={"prefill": replace(prefill, kv_b=0.0), "decode": replace(decode, kv_b=0.0)},
    )  # fmt: skip
    alone = replace(one, phases={"forward": MEMORY})

    assert re.search(r"phase.*\n.*\n.*h200_sxm +prefill +21 GB", printed(fits_table([one, one])))
    assert "forward" not in printed(fits_table([alone, alone]))


def test_a_skyline_keeps_the_highest_of_what_it_puts_together():
    assert skyline([0.0, 7.0, 1.0, 0.0], width=2) == "█▁"
    assert coarse([1, 2, 9, 4, 5, 6], most=3) == [2, 9, 6]
    assert coarse([], most=3) == []
