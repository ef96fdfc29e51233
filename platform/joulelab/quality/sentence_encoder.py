"""Embeddings of sentences, by an encoder of transformers.

Imports torch and transformers, so it is imported only by functions that embed.
"""

from collections.abc import Callable, Sequence

import torch

from joulelab.quality.protocols import FloatArray
from joulelab.workloads import accelerator, hub

from transformers import AutoModel, AutoTokenizer  # isort: skip  # after hub, which prepares it

_BATCH = 64


def sentence_encoder(weights: str) -> Callable[[Sequence[str]], FloatArray]:
    """Load the encoder in the folder or of the hub id ``weights``.

    Returns:
        A function of sentences to vectors of length 1, shape (sentences, width): the mean of the
        last layer over each sentence's tokens (Reimers and Gurevych, "Sentence-BERT", 2019).

    Raises:
        ConfigError: If it cannot be read.
    """
    device = accelerator.select_device()
    network = hub.pretrained_model(AutoModel, weights, torch.float32, device)
    with hub.reading(weights):
        tokenizer = AutoTokenizer.from_pretrained(weights)

    def embed(sentences: Sequence[str]) -> FloatArray:
        batches = (sentences[start : start + _BATCH] for start in range(0, len(sentences), _BATCH))
        vectors = [_embedded(list(batch)) for batch in batches]
        found: FloatArray = torch.cat(vectors).numpy()
        return found

    def _embedded(sentences: list[str]) -> torch.Tensor:
        encoded = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
        encoded = encoded.to(device)
        with accelerator.computing("fp32"):
            states = network(**encoded).last_hidden_state
            mask = encoded["attention_mask"].unsqueeze(-1)
            means = (states * mask).sum(dim=1) / mask.sum(dim=1)
            return torch.nn.functional.normalize(means, dim=1).cpu()

    return embed
