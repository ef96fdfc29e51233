"""Llama inference: reading a prompt (prefill) and generating from it (decode), measured apart."""

from typing import Any, ClassVar

from typing_extensions import override

from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.llama_settings import LlamaSettings


class Llama(LanguageWorkload[LlamaSettings]):
    """Runs a Llama network of transformers, and counts tokens."""

    settings_type: ClassVar = LlamaSettings

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads import llama_network

        settings = self.settings
        if settings.weights is None:
            return llama_network.random_network(settings, device)
        return llama_network.pretrained_network(settings, settings.weights, device)
