"""What the outputs of workloads are worth."""

from typing import Any

from joulelab.quality.base import Metric
from joulelab.quality.subject import Subject
from joulelab.registry import Registry

METRICS: Registry[type[Metric]] = Registry(
    "metric",
    {
        "bleu": "joulelab.quality.bleu:Bleu",
        "coherence": "joulelab.quality.coherence:Coherence",
        "kl_divergence": "joulelab.quality.kl_divergence:KlDivergence",
        "perplexity": "joulelab.quality.perplexity:Perplexity",
        "rouge": "joulelab.quality.rouge:Rouge",
        "token_agreement": "joulelab.quality.token_agreement:TokenAgreement",
    },
)

SUBJECTS: Registry[type[Subject[Any]]] = Registry(
    "workload with outputs to score",
    {
        "llama": "joulelab.workloads.language_outputs:LanguageSubject",
    },
)
"""By the name of the workload."""
