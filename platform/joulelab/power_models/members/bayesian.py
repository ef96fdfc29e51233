"""A physical law with parameters of GPU and application, and how well each is known."""

from typing import ClassVar

from typing_extensions import override

from joulelab.power_models.members.hierarchical import HierarchicalModel
from joulelab.power_models.members.laws import Law
from joulelab.power_models.members.physical_terms import PowerLaw, TimeLaw


class BayesianModel(HierarchicalModel):
    """Physical terms, each GPU expected where its figures in the catalogue put it."""

    name: ClassVar[str] = "bayesian"

    @property
    @override
    def law(self) -> Law:
        return PowerLaw() if self.target == "power_w" else TimeLaw()
