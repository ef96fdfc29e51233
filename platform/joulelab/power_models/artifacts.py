"""Read saved models of any kind; nothing that a file holds is run."""

from pathlib import Path

from joulelab.power_models import POWER_MODELS
from joulelab.power_models.base import PowerModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.state import read_state


def load_model(folder: Path) -> PowerModel:
    """Read the model that ``PowerModel.save`` wrote into ``folder``.

    Raises:
        UnknownNameError: If it is of a kind that is not registered.
        ConfigError: If the folder does not hold a model.
    """
    return POWER_MODELS[str(read_state(folder).values.get("name"))].load(folder)


def load_operating_model(folder: Path) -> OperatingModel:
    """Read the models that ``OperatingModel.save`` wrote into ``folder``.

    Raises:
        ConfigError: If the folder does not hold them.
    """
    return OperatingModel(power=load_model(folder / "power"), time=load_model(folder / "time"))
