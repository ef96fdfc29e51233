"""A real ``transformers.Trainer`` on a GPU whose power is known at every instant."""

import pytest
import torch
from fake_gpu import LOAD_W

from joulelab.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()
pytest.importorskip("accelerate")  # what the Trainer needs

from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from joulelab.integrations.transformers import EnergyCallback  # noqa: E402

STEP_S = 2.0


class Data(torch.utils.data.Dataset):
    """Ten samples of four tokens."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"input_ids": torch.arange(4) + index, "labels": torch.tensor(float(index))}


class Net(torch.nn.Module):
    """Each forward pass keeps the GPU busy for a known time."""

    main_input_name = "input_ids"

    def __init__(self, gpu):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self._gpu = gpu

    def forward(self, input_ids, labels):
        self._gpu.clock.sleep_s(STEP_S)
        return {"loss": ((self.weight * input_ids.float().mean(1) - labels) ** 2).mean()}


class Tracker(TrainerCallback):
    """Stands where MLflow's and TensorBoard's callbacks stand."""

    def __init__(self):
        self.told = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.told.append(dict(logs))


def train(folder, gpu, monitor, **settings):
    tracker = Tracker()
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        num_train_epochs=2,
        logging_steps=1,
        include_num_input_tokens_seen=True,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(Net(gpu), arguments, train_dataset=Data(), callbacks=[tracker])
    EnergyCallback(monitor, interval_s=1e-9, **settings).join(trainer)
    trainer.train()
    return trainer, tracker.told


def test_trackers_and_history_get_energy_and_power_and_joules_per_sample_and_token(
    tmp_path, gpu, monitor
):
    trainer, told = train(tmp_path, gpu, monitor)

    *steps, last = told
    assert [step["power_w"] for step in steps] == pytest.approx([LOAD_W] * 6, rel=0.01)
    per_sample_j = [LOAD_W * STEP_S / samples for samples in (4, 4, 2, 4, 4, 2)]
    assert [step["energy_per_sample_j"] for step in steps] == pytest.approx(per_sample_j, rel=0.01)
    assert [step["energy_per_token_j"] for step in steps] == pytest.approx(
        [each / 4 for each in per_sample_j], rel=0.01
    )
    assert last["energy_j"] == pytest.approx(6 * LOAD_W * STEP_S, rel=0.01)
    assert trainer.state.log_history[0]["power_w"] == steps[0]["power_w"]


def test_training_stops_when_the_budget_is_spent(tmp_path, gpu, monitor):
    trainer, told = train(tmp_path, gpu, monitor, max_energy_j=2.5 * LOAD_W * STEP_S)

    assert trainer.state.global_step == 3
    assert told[-1]["energy_j"] == pytest.approx(3 * LOAD_W * STEP_S, rel=0.01)
