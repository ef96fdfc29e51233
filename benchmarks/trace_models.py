"""How far the trace model is off for recordings that it was not shown.

    python benchmarks/trace_models.py [--data ../shared/data]

Recordings of an H200 (steps, steady loads, duty cycles, kernels) where that folder is there, and
of simulated boards that serve a language model: prefill, decode and idle at random loads.
"""

import argparse
import time
from functools import partial
from pathlib import Path

from trace_recordings import LIMIT_W, by_experiment, measured_traces, simulated_traces

from joulelab.power_models.traces import BASELINE, TRACE_MODELS
from joulelab.power_models.traces.load_trace import LoadTrace
from joulelab.power_models.traces.model import TraceScores, leave_one_trace_out


def covered(scores: TraceScores) -> str:
    """Write the coverage of 90 % intervals, where there are recordings enough for them."""
    if len(scores.energy_error) < 11:
        return "       -"
    return f"{scores.coverage(0.9):8.2f}"


def line(scores: TraceScores) -> str:
    """Write the errors of one set."""
    worst, error = scores.worst
    return (
        f"{100 * scores.median:7.2f} {100 * scores.mean:7.2f} {100 * error:7.1f} "
        f"{100 * scores.power_mape:7.2f} {covered(scores)} {scores.fit_s:7.1f}  {worst}"
    )


def main() -> None:
    """Print one line per set of recordings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--num-simulated", type=int, default=12)
    chosen = parser.parse_args()
    sets: dict[str, list[LoadTrace]] = {
        "simulated H200, serving": simulated_traces(chosen.num_simulated)
    }
    if (chosen.data / "h200_duty_cycle.csv").exists():
        measured = measured_traces(chosen.data)
        sets["measured H200"] = measured
        sets["measured H200, by kind of experiment"] = by_experiment(measured)
    else:
        print(f"{chosen.data} is absent: measured recordings are left out.")
    for title, traces in sets.items():
        start_s = time.perf_counter()
        model = partial(TRACE_MODELS[BASELINE], calibration_folds=0, power_limit_w=LIMIT_W)
        scores = leave_one_trace_out(model, traces)
        print(
            f"\n{title}: {len(traces)} recordings, {len({t.name for t in traces})} times left out; "
            "errors in %"
        )
        print(" median    mean   worst    MAPE coverage   fit s  worst is")
        print(line(scores))
        print(f"({time.perf_counter() - start_s:.0f} s)")


if __name__ == "__main__":
    main()
