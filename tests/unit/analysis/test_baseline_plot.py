import re

from synthetic_results import measurement

from joulelab.analysis.baseline import baseline_rows
from joulelab.analysis.cell_plots import save_baseline_plot
from joulelab.core.measurement import Finding

LOST = Finding(reason="device_lost", detail="It fell off the bus.")


def test_a_baseline_is_drawn_with_what_each_workload_costs(tmp_path):
    """Baselines ended with a table and no figure."""
    rows = baseline_rows(
        [
            measurement(phase="prefill"),
            measurement(phase="decode"),
            measurement(phase="score", findings=[LOST]),
        ]
    )

    png, svg = save_baseline_plot(rows, tmp_path / "baseline")

    assert png.stat().st_size > 0
    drawn = re.findall(r"<!-- (.*?) -->", svg.read_text())
    assert {"llama decode", "llama prefill"} <= set(drawn)
    assert "llama score" not in drawn
    assert sum("mJ/token in 1" in text for text in drawn) == 2
    assert {"under load", "at rest"} <= set(drawn)


def test_nothing_valid_draws_nothing(tmp_path):
    assert save_baseline_plot(baseline_rows([measurement(findings=[LOST])]), tmp_path / "b") == ()
    assert list(tmp_path.iterdir()) == []
