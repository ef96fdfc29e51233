"""Measure every promised figure and print them in one table.

Usage: python benchmarks/run.py [NAME ...]     (default: all)
"""

import importlib
import sys

from figures import print_figures

BENCHMARKS = (
    "energy_uncertainty",
    "sampler_cost",
    "windows",
    "core_install",
    "run_overhead",
    "trial_overhead",
    "sweep_speed",
    "loading_ahead",
    "live_metrics",
    "guard_kills",
    "guard_attack",
    "foreign_settings",
    "best_set",
    "tracking_cost",
    "estimator_speed",
    "estimator_laws",
    "estimator",
    "unknown_hosts",
    "physical_order",
    "simulation_error",
    "study_error",
    "search_clock",
    "search_tables",
    "bounded_searches",
    "request_slowdown",
    "suggestion_cost",
    "search_overhead",
    "search_scaling",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks, print their figures, and fail if a promise is broken."""
    found = []
    for name in names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += importlib.import_module(name).figures()
    print_figures(found)
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
