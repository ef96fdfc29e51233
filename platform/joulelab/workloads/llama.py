"""Llama inference: reading a prompt (prefill) and generating from it (decode), measured apart."""

from collections.abc import Callable
from typing import ClassVar

from typing_extensions import override

from joulelab.core.cost import PhaseCost, WorkloadCost
from joulelab.errors import ConfigError
from joulelab.workloads.base import Workload
from joulelab.workloads.knobs import require_choice
from joulelab.workloads.llama_settings import LlamaSettings

_SEED = 0


class Llama(Workload[LlamaSettings]):
    """Runs a Llama network of transformers, and counts tokens.

    A prefill counts the tokens of the prompts, a decode those that it generates. Every decode
    starts from the same prefilled cache: it is cut back to the prompts, not computed anew.
    """

    settings_type: ClassVar = LlamaSettings
    unit: ClassVar = "token"

    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__(settings)
        self._programs: dict[str, Callable[[], None]] = {}

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return ("prefill", "decode")

    @override
    def prepare(self) -> None:
        from joulelab.workloads import accelerator, llama_network

        settings = self.settings
        device = accelerator.select_device()
        accelerator.require_precision(settings.precision, device)
        accelerator.require_memory(settings.resident_b, device, self._title)
        with accelerator.memory_errors(self._title), accelerator.seeded(_SEED, device):
            if settings.weights is None:
                network = llama_network.random_network(settings, device)
            else:
                network = llama_network.pretrained_network(settings, settings.weights, device)
            generation = llama_network.Generation(network, settings)
        self._programs = {"prefill": generation.prefill, "decode": generation.decode}
        for phase in self.phases:  # loads the kernels; a decode needs the cache of a prefill
            self.run(phase)

    @override
    def run(self, phase: str) -> float:
        from joulelab.workloads import accelerator

        require_choice("phase", phase, self.phases)
        if not self._programs:
            raise ConfigError("llama must be prepared before it is run.")
        with accelerator.memory_errors(self._title), accelerator.computing(self.settings.precision):
            self._programs[phase]()
            accelerator.synchronize()
        return self._work(phase)

    @override
    def close(self) -> None:
        if self._programs:
            from joulelab.workloads import accelerator

            self._programs = {}
            accelerator.release_memory()

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.workloads.llama_cost import trace_phases

        kernels = trace_phases(self.settings)
        return WorkloadCost(
            unit=self.unit,
            phases=tuple(
                PhaseCost(phase=phase, work=self._work(phase), kernels=kernels[phase])
                for phase in self.phases
            ),
            resident_b=float(self.settings.resident_b),
        )

    @property
    def _title(self) -> str:
        settings = self.settings
        return f"{settings.model} in {settings.precision} with batch {settings.batch}"

    def _work(self, phase: str) -> float:
        tokens = self.settings.prompt_tokens if phase == "prefill" else self.settings.new_tokens
        return float(self.settings.batch * tokens)
