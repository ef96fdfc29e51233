"""Studies of knobs on measurements of known cost."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from synthetic_results import board, header, measurement

from joulelab import Configuration, EnergyWindow
from joulelab.analysis.knob_grid import LOG, Axis, KnobStudy, knob_grid
from joulelab.analysis.knob_report import knob_frame, knob_listing
from joulelab.analysis.knob_study import analyse_knobs, summed
from joulelab.analysis.knob_wording import (
    conclude_batches,
    conclude_formats,
    conclude_lengths,
    conclude_sizes,
    conclude_steps,
    crossover,
    equals,
    losses,
    sentence,
    winners,
)
from joulelab.analysis.labels import apart
from joulelab.analysis.methods import grid_paragraph
from joulelab.analysis.wording import FEW_BOARDS, UNREPEATED
from joulelab.cli.main import main
from joulelab.core.measurement import Finding
from joulelab.core.quality import Quality
from joulelab.core.record import Record
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.study.conclude import conclude_knobs, report_of
from joulelab.tracking.store import ResultStore

BATCHES = (1, 4, 16)
NO_BF16 = Finding(reason="unsupported", detail="The <GPU> has no bf16.")


def axes(**values):
    return [Axis(knob=knob, values=each, title=knob) for knob, each in values.items()]


def measured(configuration, energy_j, time_s, *, repeat=0, u=0.001, **changes):
    """Make a measurement of one unit of work of this cost."""
    window = EnergyWindow(
        start_s=0.0, duration_s=time_s, energy_j=energy_j, energy_u_j=u * energy_j,
        source="counter", work=1.0,
    )  # fmt: skip
    name = f"{configuration.config_hash}-{repeat}"
    made = measurement(
        phase="decode", configuration=configuration, trial=name, repeat=repeat, minute=repeat
    )
    made = replace(made, windows=(window,), measurement_id=f"{name}-decode")
    return replace(made, **changes)


def refused(configuration):
    return replace(measured(configuration, 1.0, 1.0), windows=(), findings=(NO_BF16,))


def study(grid, cost, **options):
    """Measure every case at the (energy, time) that ``cost`` says of its values."""
    rows = [
        measured(case.configuration, *cost(*case.values), repeat=repeat, **options)
        for case in grid.cases
        if case.configuration is not None
        for repeat in range(2)
    ]
    return analyse_knobs(rows, grid)


def formats(precisions=("fp32", "fp16", "int8"), batches=BATCHES):
    return knob_grid("llama", {"model": "tiny"}, axes(precision=precisions, batch=batches))


def format_cost(precision, batch):
    """int8 costs 2 / batch of fp16's energy, so that it wins from batch 2 up."""
    share = {"fp32": 4.0, "fp16": 1.0, "int8": 2 / batch**1.0}[precision]
    return share * 8 / batch, 1.0 / batch


def test_a_grid_is_every_combination_with_the_last_knob_fastest():
    grid = formats()

    assert [case.values for case in grid.cases[:4]] == [
        ("fp32", 1), ("fp32", 4), ("fp32", 16), ("fp16", 1),
    ]  # fmt: skip
    assert grid.cases[4].label == "fp16, batch 4"
    assert grid.cases[4].configuration == Configuration.of(
        "llama", dict(grid.cases[0].configuration.knobs) | {"precision": "fp16", "batch": 4}
    )


def test_a_combination_that_the_workload_refuses_keeps_the_reason():
    grid = knob_grid("llama", {"model": "llama-2-7b"}, axes(prompt_tokens=(128, 100_000)))

    assert [case.configuration is None for case in grid.cases] == [False, True]
    assert "at most 4096" in grid.cases[1].refusal


def test_a_grid_of_nothing_possible_is_refused_with_the_reason():
    grid = knob_grid("llama", {}, axes(batch=(0,)))

    with pytest.raises(ConfigError, match="batch must be"):
        _ = grid.configurations


@pytest.mark.parametrize("values", [(), (1, 1)])
def test_an_axis_needs_values_each_once(values):
    with pytest.raises(ConfigError, match="each once"):
        axes(batch=values)


def test_rows_hold_energy_power_and_ratios_to_the_first():
    (phase,) = study(formats(), format_cost).phases

    row = phase.rows[4]
    assert row.case.values == ("fp16", 4)
    assert row.figures.energy_per_unit_j == pytest.approx(2.0)
    assert row.figures.power_w == pytest.approx(8.0)
    assert 1 - row.figures.saving.value == pytest.approx(2.0 / 32)
    assert 1 + row.figures.slowdown.value == pytest.approx(1 / 4)
    assert phase.reference == "fp32, batch 1"


def test_the_interval_of_a_ratio_is_that_of_two_stated_uncertainties():
    (phase,) = study(formats(), format_cost, u=0.01).phases

    ratio = phase.ratio(phase.rows[1], phase.rows[0])

    # Two repeats of 1 % each: each mean is known to 0.01 / sqrt(2), their ratio to 0.01.
    assert (ratio.high / ratio.value) == pytest.approx(2.718281828 ** (1.959964 * 0.01), rel=1e-6)


def test_a_narrower_format_that_takes_more_is_marked_where_it_does():
    (phase,) = study(formats(), format_cost).phases

    (loss,) = losses(phase)

    assert loss.row.case.values == ("int8", 1)
    assert loss.to.case.values == ("fp16", 1)
    assert loss.ratio.value == pytest.approx(2.0)


def test_curves_cross_where_their_logarithms_do():
    (phase,) = study(formats(), format_cost).phases
    curves = phase.curves

    assert crossover(curves["int8",], curves["fp16",]) == pytest.approx(2.0)
    assert crossover(curves["fp32",], curves["fp16",]) is None


def test_equals_of_a_winner_are_those_that_are_not_shown_to_be_worse():
    (phase,) = study(formats(), lambda p, b: (1.02 if p == "fp32" else 1.0, 1.0), u=0.05).phases

    assert [row.x for row in winners(phase)] == list(BATCHES)
    assert len(equals(phase, winners(phase)[0])) == 3


def test_the_sentence_on_formats_names_winners_and_losers():
    said = sentence(study(formats(), format_cost), conclude_formats)

    assert said.startswith("Least energy: fp16 at batch 1 (8.0000 ± 0.0057 J/token), int8 from ")
    assert "int8 loses to fp16 at batch 1 (+100.0 % ± " in said
    assert said.endswith("crossing near 2).")


def test_the_sentence_on_batches_gives_growth_and_where_it_ends():
    grid = knob_grid("llama", {"model": "tiny"}, axes(precision=("fp16",), batch=(1, 2, 4)))

    said = sentence(
        study(grid, lambda p, b: (1 + 0.02 / b if b > 1 else 9, 1 / b)), conclude_batches
    )

    assert said.startswith("From batch 1 to 4 energy changes by -88.8")
    assert said.endswith("throughput grows 4-fold (beyond 2 a doubling saves less than 5%).")


def test_the_sentence_on_sizes_gives_the_power_law():
    names, places = ("tiny", "tinyllama", "llama-2-7b"), (1e6, 1e9, 1e10)
    costs = {name: (place / 1e6) ** 0.5 for name, place in zip(names, places, strict=True)}

    def said(num: int) -> str:
        axis = Axis(knob="model", values=names[:num], title="parameters", places=places[:num])
        return sentence(
            study(knob_grid("llama", {}, [axis]), lambda m: (costs[m], 1.0)), conclude_sizes
        )

    assert "goes with the power 0.50 of the parameters" in said(3)
    assert said(3).startswith("llama-2-7b takes 100")
    assert said(2).startswith("tinyllama takes 31.6")
    assert "power" not in said(2)  # which was told of two, -1.51 where the smaller one took more


def test_the_sentence_on_lengths_gives_the_change_of_energy_and_time():
    grid = knob_grid("llama", {"model": "tiny"}, axes(prompt_tokens=(16, 64)))

    said = sentence(study(grid, lambda n: (n / 16, (n / 16) ** 0.5)), conclude_lengths)

    assert "From 16 to 64 prompt_tokens energy per token changes by +300.0" in said
    assert "time by +100.0" in said


def test_combinations_that_share_no_second_board_have_ratios_without_an_end():
    """Their intervals were those of readings alone, whatever boards do from one to the next."""
    axis = Axis(knob="model", values=("tiny", "tinyllama"), title="parameters", places=(1e6, 1e9))
    grid = knob_grid("llama", {}, [axis])
    first, last = (case.configuration for case in grid.cases)
    on = [(first, 2.0, 0), (first, 2.2, 1), (last, 6.0, 1)]
    rows = [measured(c, energy_j, 1.0, repeat=i, device=board(i)) for c, energy_j, i in on]

    found = analyse_knobs(rows, grid)

    [phase] = found.phases
    assert phase.is_open
    assert sentence(found, conclude_sizes).startswith("tinyllama takes 2.73 times the energy")
    listing = knob_listing(phase)
    assert FEW_BOARDS in listing.legend
    cells = [column.cell(listing.line(phase.rows[1]).found) for column in listing.quantities([])]
    assert "2.7273" in cells


def test_a_table_of_single_measurements_says_that_nothing_was_repeated():
    """Its 95 % intervals hold what readings state, less than repeats scatter; it said nothing."""
    grid = knob_grid("llama", {}, axes(batch=(1, 2)))
    once = [measured(case.configuration, 2.0, 1.0) for case in grid.cases]
    twice = [
        measured(case.configuration, 2.0 + r, 1.0, repeat=r) for case in grid.cases for r in (0, 1)
    ]

    [alone], [repeated] = (analyse_knobs(rows, grid).phases for rows in (once, twice))

    assert UNREPEATED in knob_listing(alone).legend
    assert UNREPEATED not in knob_listing(repeated).legend


def quality(retention):
    return Quality(
        metric="ssim", direction="higher", score=retention, n=1, counted="image", data="d",
        source_hash="h", retention=retention,
    )  # fmt: skip


def test_the_sentence_on_steps_asks_for_quality_and_gives_the_cost_of_a_step():
    grid = knob_grid("digits-diffusion", {}, axes(scheduler=("ddim",), steps=(50, 20, 10)))
    rows = [
        measured(case.configuration, 5.0 + 0.1 * case.values[1], 1.0, unit="image", repeat=repeat)
        for case in grid.cases
        for repeat in range(2)
    ]

    result = analyse_knobs(rows, grid, quality=[(quality(1.0),), (quality(0.97),), (quality(0.6),)])

    said = sentence(result, conclude_steps)
    assert said.startswith("Least energy: ddim, steps 10, 6.0")
    assert "of those that keep 95% of the first row's ssim: ddim, steps 20, 7.0" in said
    assert said.endswith("one step more costs 100 mJ/image.")


def test_phases_that_count_the_same_add_up_and_their_errors_in_squares():
    grid = formats()
    one = measured(grid.cases[0].configuration, 3.0, 1.0, u=0.01)
    parts = [one, replace(measured(grid.cases[0].configuration, 4.0, 2.0, u=0.01), phase="vae")]

    (total,) = summed(parts, "image")

    assert total.phase == "image"
    assert total.energy_per_unit_j == pytest.approx(7.0)
    assert total.time_per_unit_s == pytest.approx(3.0)
    assert total.energy_per_unit_u_j == pytest.approx(0.05)


def test_a_sum_with_an_invalid_part_is_invalid():
    grid = formats()
    part = measured(grid.cases[0].configuration, 3.0, 1.0)

    (total,) = summed([part, replace(refused(grid.cases[0].configuration), phase="vae")], "image")

    assert not total.valid


@pytest.fixture
def concluded(tmp_path):
    """A study in which one format cannot run and one length cannot be asked for."""
    grid = formats(("fp32", "bf16", "int8"), (1, 4, 0))
    store = ResultStore(tmp_path)
    store.write_study(header())
    for case in grid.cases:
        if case.configuration is None:
            continue
        for repeat in range(2):
            is_refused = case.values[0] == "bf16"
            made = (
                refused(case.configuration)
                if is_refused
                else measured(case.configuration, 8.0 / case.values[1], 1.0, repeat=repeat)
            )
            store.append(Record(measurement=made, trace=None))
    told = KnobStudy(grid=grid, about="formats", panels=("energy", "trade"))
    return store, told, conclude_knobs(store, told)


@pytest.mark.parametrize("has_sentinels", [True, False])
def test_the_methods_tell_of_the_sentinels(has_sentinels):
    """The first combination was measured more often than the blocks that were told of."""
    grid = formats(("fp16", "int8"), (1,))
    rows = [measured(case.configuration, 1.0, 1.0) for case in grid.cases]
    if has_sentinels:
        rows += [measured(grid.cases[0].configuration, 1.0, 1.0, repeat=1, sentinel=True)]

    told = grid_paragraph(analyse_knobs(rows, grid).phases[0], rows)

    words = "with the first of them repeated between them as a sentinel."
    assert ("in randomised blocks" in told, words in told) == (True, has_sentinels)


def test_what_cannot_run_is_a_row_with_its_reason_in_the_table(concluded):
    store, _, result = concluded
    console = Console(width=100, file=StringIO())

    report_of(store, result).print(store.folder, console=console)

    text = console.file.getvalue()
    assert "cannot run [1]" in text
    assert "The <GPU> has no bf16." in " ".join(text.split())
    assert "batch must be a whole number" in " ".join(text.split())
    assert result.complete


def test_a_study_leaves_report_table_and_plot(concluded):
    store, _, _ = concluded

    answer = store.read_answer()

    assert answer.files == ("report.html", "study.csv", "study.png", "study.svg")
    page = (store.folder / "report.html").read_text()
    assert "The &lt;GPU&gt; has no bf16." in page
    assert "<svg" in page
    assert dict(answer.summary)["best.decode.energy_per_unit_j"] == pytest.approx(2.0)


def test_a_study_is_told_again_from_its_folder_alone(concluded, capsys):
    store, told, _ = concluded
    scores = [(quality(0.9),) if case.configuration else () for case in told.grid.cases]
    conclude_knobs(store, told, scores)
    answer, table = store.read_answer(), (store.folder / "study.csv").read_bytes()
    for name in answer.files:
        (store.folder / name).unlink()

    assert main(["report", str(store.folder)]) == 0

    assert store.read_answer() == answer
    assert (store.folder / "study.csv").read_bytes() == table
    assert "ssim" in table.decode()
    assert all((store.folder / name).stat().st_size > 500 for name in answer.files)
    assert answer.note in " ".join(capsys.readouterr().out.split())


def test_a_damaged_log_is_named(concluded, capsys):
    store, _, _ = concluded
    (store.folder / LOG).write_text('{"study": 1}')

    assert main(["report", str(store.folder)]) == 2

    assert f"{LOG} is no log of a study of knobs" in capsys.readouterr().err


def test_nothing_is_said_of_an_unknown_subject():
    with pytest.raises(UnknownNameError, match="formats"):
        KnobStudy(grid=formats(("fp32",), (1,)), about="format", panels=("energy",))


def test_the_csv_holds_every_combination_in_si_units(concluded, tmp_path):
    _, _, result = concluded
    knob_frame(result).write(tmp_path / "study.csv")

    rows = {(row["precision"], row["batch"]): row for row in read_csv_table(tmp_path / "study.csv")}

    assert len(rows) == 9
    assert float(rows["int8", "4"]["energy_per_unit_j"]) == pytest.approx(2.0)
    assert float(rows["int8", "4"]["energy_ratio"]) == pytest.approx(0.25)
    assert rows["bf16", "1"]["energy_per_unit_j"] == ""
    assert rows["bf16", "1"]["reason"] == NO_BF16.detail


def test_a_study_of_which_nothing_could_be_measured_says_so():
    grid = formats(("bf16",), (1,))

    result = analyse_knobs([refused(grid.cases[0].configuration)], grid)

    assert sentence(result, conclude_formats) == "Nothing could be measured. The <GPU> has no bf16."
    assert not result.complete


def test_names_are_kept_apart_and_below_the_ceiling():
    assert apart([0.0, 1.0, 50.0], 10.0, 100.0) == [0.0, 10.0, 50.0]
    assert apart([98.0, 99.0], 10.0, 100.0) == [90.0, 100.0]
