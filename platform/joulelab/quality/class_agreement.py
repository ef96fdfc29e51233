"""How often the likeliest class is the reference's."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from joulelab.core.quality import Direction
from joulelab.errors import MeasurementError
from joulelab.quality.base import Need, Score
from joulelab.quality.classes import Classes
from joulelab.quality.image_data import LabelledData
from joulelab.quality.images import require_finite
from joulelab.quality.protocols import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAgreement(Classes):
    """Share of the inputs, 0 to 1, whose likeliest class is that of the reference."""

    name: ClassVar[str] = "class_agreement"
    direction: ClassVar[Direction] = "higher"
    needs: ClassVar[frozenset[Need]] = frozenset({"reference_outputs"})

    @override
    def score(self, observed: FloatArray, data: LabelledData, reference: FloatArray) -> Score:
        require_finite(self.name, observed)
        chosen = reference.argmax(axis=1)
        if len(chosen) > 1 and (chosen == chosen[0]).all():
            raise MeasurementError(
                f"The reference puts all {len(chosen)} inputs into one class, as random networks "
                "may, so that agreeing with it says nothing. class_divergence does; or give "
                "weights, or data of several classes."
            )
        same = observed.argmax(axis=1) == chosen
        return self.mean(same.astype(float).tolist(), data)
