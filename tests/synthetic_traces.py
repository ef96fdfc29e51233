"""Traces that obey a known law, for tests of trace models."""

import numpy as np

from joulelab.power_models.traces.load_trace import LoadTrace, Schedule

STEP_S = 0.1
LEVELS = {"idle": (0.0, 0.0), "prefill": (0.9, 0.3), "decode": (0.2, 0.8)}


def law(tensor, dram):
    """Return the steady power of the synthetic GPU, in W."""
    return 100.0 + 450.0 * tensor + 200.0 * dram


def schedule(random, num_steps=60):
    """Return phases of random lengths and loads."""
    phases, tensor, dram = [], [], []
    while len(phases) < num_steps:
        name = random.choice(list(LEVELS))
        length = int(random.integers(3, 15))
        load = random.uniform(0.5, 1.0)
        phases += [name] * length
        tensor += [LEVELS[name][0] * load] * length
        dram += [LEVELS[name][1] * load] * length
    return Schedule(
        step_s=STEP_S,
        phase=np.array(phases[:num_steps]),
        inputs={
            "tensor_active": np.array(tensor[:num_steps]),
            "dram_active": np.array(dram[:num_steps]),
        },
    )


def traces(num=10, *, num_steps=60, lag_s=0.0, noise=0.0, seed=0):
    """Return recordings of the law.

    Args:
        num: How many.
        num_steps: How long.
        lag_s: Time constant with which power follows its level.
        noise: Standard deviation of the log of each step.
        seed: Of schedules and noise.
    """
    random = np.random.default_rng(seed)
    made = []
    for number in range(num):
        one = schedule(random, num_steps)
        power_w = law(one.inputs["tensor_active"], one.inputs["dram_active"])
        stay = np.exp(-STEP_S / lag_s) if lag_s else 0.0
        for step in range(1, num_steps):
            power_w[step] = stay * power_w[step - 1] + (1 - stay) * power_w[step]
        power_w = power_w * np.exp(noise * random.standard_normal(num_steps))
        made.append(LoadTrace(name=f"recording {number:02d}", schedule=one, power_w=power_w))
    return made
