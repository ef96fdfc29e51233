"""A small LSTM that is trained to read handwritten digits row by row."""

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.digits import SIDE_PX
from joulelab.workloads.knobs import require_choice, require_count
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.trained_settings import Precision, Weights, check_weights

_SEQUENCES_PER_RUN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsLstmSettings:
    """Read handwritten digits with an LSTM, a row of 8 pixels at a time.

    Attributes:
        weights: trained on this machine, once, in a minute or so; None for random.
        precision: Number format of weights and activations; int8, int4 and fp8 are those of the
            linear layers after the LSTM, which itself stays in 16 bits.
        batch: Sequences computed side by side.
        rows: How many rows are read, from the top, before the network must decide.
    """

    weights: Weights = "trained"
    precision: Precision = "fp32"
    batch: int = 64
    rows: int = SIDE_PX

    def __post_init__(self) -> None:
        check_weights(self.weights)
        require_choice("precision", self.precision, get_args(Precision))
        require_count("batch", self.batch)
        require_count("rows", self.rows)
        if self.rows > SIDE_PX:
            raise ConfigError(f"rows must be at most {SIDE_PX}, got {self.rows}.")


class DigitsLstm(NetworkWorkload[DigitsLstmSettings]):
    """Reads digits row by row, and counts sequences."""

    settings_type: ClassVar = DigitsLstmSettings
    unit: ClassVar = "sequence"
    input_knobs: ClassVar = frozenset({"batch", "rows"})

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.digits_lstm_network import load_network

        return load_network(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.digits_tensors import some_digits

        images = some_digits(self.settings.batch, self.settings.precision, device)
        rows = images[:, 0, : self.settings.rows].contiguous()
        return {"forward": lambda: network(rows)}

    @override
    def work(self, phase: str) -> float:
        return float(self.settings.batch)

    @override
    def executions(self, phase: str) -> int:
        return max(_SEQUENCES_PER_RUN // self.settings.batch, 1)
