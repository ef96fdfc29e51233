"""Language models that generate: reading a prompt (prefill) and generating (decode)."""

from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from joulelab.core.cost import WorkloadCost
from joulelab.workloads.language_settings import LanguageSettings
from joulelab.workloads.network import NetworkWorkload, Programs

Settings = TypeVar("Settings", bound=LanguageSettings)


class LanguageWorkload(NetworkWorkload[Settings]):
    """Runs a causal language model of transformers, and counts tokens.

    A prefill counts the tokens of the prompts, a decode those that it generates. Every decode
    starts from the same cache: it is cut back to its first length, not computed anew. A subclass
    makes the network.
    """

    unit: ClassVar[str] = "token"
    phases_of_network: ClassVar[tuple[str, ...]] = ("prefill", "decode")
    input_knobs: ClassVar[frozenset[str]] = frozenset(
        {"batch", "prompt_tokens", "new_tokens", "context_tokens", "kv_cache"}
    )

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        from joulelab.workloads.generation import Generation

        generation = Generation(network, self.settings)
        return {"prefill": generation.prefill, "decode": generation.decode}

    @property
    @override
    def is_network_kept(self) -> bool:
        return not self.settings.compile  # its graphs are freed with it

    @override
    def work(self, phase: str) -> float:
        tokens = self.settings.prompt_tokens if phase == "prefill" else self.settings.new_tokens
        return float(self.settings.batch * tokens)

    @property
    @override
    def title(self) -> str:
        settings = self.settings
        return f"{settings.model} in {settings.precision} with batch {settings.batch}"

    @override
    def close(self) -> None:
        if self._programs and self.settings.compile:
            import torch

            torch.compiler.reset()  # frees the graphs
        super().close()

    @override
    def cost(self) -> WorkloadCost:
        from joulelab.workloads.language_cost import trace_phases

        phases, resident_b = trace_phases(self)
        return WorkloadCost(unit=self.unit, phases=phases, resident_b=resident_b)
