"""A real Lightning trainer on a GPU whose power is known at every instant."""

import pytest
import torch
from fake_gpu import LOAD_W

from joulelab.tracing.torchvision_shim import ensure_torchvision

ensure_torchvision()
pytest.importorskip("lightning")

from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from lightning.pytorch.loggers import Logger  # noqa: E402

from joulelab.integrations.lightning import EnergyCallback  # noqa: E402

STEP_S = 2.0


class Net(LightningModule):
    """Each step keeps the GPU busy for a known time."""

    def __init__(self, gpu):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self._gpu = gpu

    def training_step(self, batch, _number):
        self._gpu.clock.sleep_s(STEP_S)
        return (self.weight * batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Kept(Logger):
    """Keeps what is logged."""

    name, version = "kept", 0

    def __init__(self):
        super().__init__()
        self.told = []

    def log_metrics(self, metrics, step=None):
        self.told.append(dict(metrics))

    def log_hyperparams(self, *_):
        pass


@pytest.mark.filterwarnings("ignore")  # Lightning's own
@pytest.mark.parametrize(("max_energy_j", "steps"), [(None, 5), (2.5 * LOAD_W * STEP_S, 3)])
def test_energy_is_logged_and_a_budget_ends_the_training(
    tmp_path, gpu, monitor, max_energy_j, steps
):
    kept = Kept()
    callback = EnergyCallback(
        monitor, samples_per_batch=4, max_energy_j=max_energy_j, interval_s=1e-9
    )
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=1,
        log_every_n_steps=1,
        logger=kept,
        callbacks=[callback],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Net(gpu), torch.utils.data.DataLoader(torch.ones(20, 1), batch_size=4))

    told = [each for each in kept.told if "power_w" in each]
    assert trainer.global_step == steps
    assert told[0]["energy_per_sample_j"] == pytest.approx(LOAD_W * STEP_S / 4, rel=0.01)
    assert max(each["energy_j"] for each in told) == pytest.approx(
        steps * LOAD_W * STEP_S, rel=0.01
    )
