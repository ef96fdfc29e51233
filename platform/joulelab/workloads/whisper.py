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
    input_knobs: ClassVar = frozenset({"batch", "audio_seconds", "beams", "tokens_per_second"})

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        return f"whisper-{settings.model} in {settings.precision} with batch {settings.batch}"

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.whisper_network import network_of

        return network_of(self.settings, device)

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.whisper_network import Recognition

        recognition = Recognition(network, self.settings)
        return {"encoder": recognition.encode, "decoder": recognition.decode}

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
