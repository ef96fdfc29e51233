"""Networks are trained once, alike each time, and kept."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from joulelab.tracing.trace import fake_tensors
from joulelab.workloads import training
from joulelab.workloads.training import Recipe, load_trained, train, trained_state


def slope_loss(network, generator):
    x = torch.randn(64, 1, generator=generator)
    return nn.functional.mse_loss(network(x), 3 * x - 1)


LINE = Recipe(
    name="line",
    build=lambda dtype, device: nn.Linear(1, 1, dtype=dtype, device=device),
    loss=slope_loss,
    num_steps=300,
    peak_rate=0.1,
    sources=("workloads/training.py",),
)


def test_training_finds_the_line_that_the_data_lie_on():
    state = train(LINE)

    assert state["weight"].item() == pytest.approx(3, abs=0.1)  # weight decay draws it to 0
    assert state["bias"].item() == pytest.approx(-1, abs=0.1)


def test_training_gives_the_same_each_time_whatever_surrounds_it():
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    first = train(LINE)
    torch.manual_seed(2)
    drawn = torch.get_rng_state()
    with torch.inference_mode():
        second = train(LINE)

    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert torch.get_num_threads() == threads


def test_a_network_is_trained_once(tmp_path, monkeypatch):
    first = trained_state(LINE, tmp_path)
    monkeypatch.setattr(training, "train", lambda recipe: pytest.fail("trained again"))

    second = trained_state(LINE, tmp_path)

    assert all(torch.equal(first[name], second[name]) for name in first)


def test_another_recipe_is_trained_anew():
    others = [
        replace(LINE, name="other"),
        replace(LINE, num_steps=2),
        replace(LINE, peak_rate=1.0),
        replace(LINE, sources=("workloads/digits.py",)),
    ]

    assert len({each.digest for each in (LINE, *others)}) == 5


def test_a_broken_file_is_trained_anew(tmp_path, caplog):
    recipe = replace(LINE, num_steps=4)
    expected = trained_state(recipe, tmp_path)
    (kept,) = tmp_path.glob("*.safetensors")
    kept.write_bytes(b"broken")

    state = trained_state(recipe, tmp_path)

    assert "cannot be read" in caplog.text
    assert torch.equal(state["weight"], expected["weight"])


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, caplog):
    (tmp_path / "file").touch()

    state = trained_state(replace(LINE, num_steps=4), tmp_path / "file")

    assert "not kept" in caplog.text
    assert set(state) == {"weight", "bias"}


def test_nothing_is_trained_for_a_network_without_memory(monkeypatch):
    monkeypatch.setattr(training, "train", lambda recipe: pytest.fail("trained"))

    with fake_tensors():
        load_trained(nn.Linear(1, 1), LINE)


def test_a_network_in_another_format_takes_the_state_rounded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network = nn.Linear(1, 1, dtype=torch.bfloat16)

    load_trained(network, LINE)

    assert network.weight.dtype == torch.bfloat16
    assert network.weight.item() == pytest.approx(3, abs=0.1)
