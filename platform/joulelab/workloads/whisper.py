"""Speech recognition by Whisper: encoder and decoder, measured apart."""

from typing import Any, ClassVar

from typing_extensions import override

from joulelab.core.cost import WorkloadCost
from joulelab.workloads.network import NetworkWorkload, Programs
from joulelab.workloads.whisper_settings import WhisperSettings


class Whisper(NetworkWorkload[WhisperSettings]):
    """Runs a Whisper network of transformers, and counts seconds of audio.

    The encoder reads the features of each window; the decoder then generates its text, token by
    token, on a key-value cache. Features are computed beforehand and are in neither phase. Every
    window is the same one.
    """

    settings_type: ClassVar = WhisperSettings
    unit: ClassVar = "audio second"
    phases_of_network: ClassVar = ("encoder", "decoder")

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        return f"whisper-{settings.model} in {settings.precision} with batch {settings.batch}"

    @override
    def load(self, device: Any) -> tuple[Any, Programs]:
        recognition = self.recognition(device)
        return recognition.network, {"encoder": recognition.encode, "decoder": recognition.decode}

    def recognition(self, device: Any) -> Any:
        """Build the :class:`~joulelab.workloads.whisper_network.Recognition` on ``device``."""
        from joulelab.workloads.whisper_network import Recognition, network_of

        return Recognition(network_of(self.settings, device), self.settings)

    @override
    def work(self, phase: str) -> float:
        return self.settings.batch * self.settings.window_s

    @override
    def executions(self, phase: str) -> int:
        return self.settings.num_windows

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.workloads.whisper_cost import trace_phases

        phases, resident_b = trace_phases(self)
        return WorkloadCost(unit=self.unit, phases=phases, resident_b=resident_b)
