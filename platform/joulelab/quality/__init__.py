"""What the outputs of workloads are worth."""

from typing import Any

from joulelab.quality.base import Metric
from joulelab.quality.subject import Subject
from joulelab.registry import Registry

METRICS: Registry[type[Metric]] = Registry(
    "metric",
    {
        "accuracy": "joulelab.quality.accuracy:Accuracy",
        "bleu": "joulelab.quality.bleu:Bleu",
        "box_agreement": "joulelab.quality.box_agreement:BoxAgreement",
        "class_agreement": "joulelab.quality.class_agreement:ClassAgreement",
        "class_divergence": "joulelab.quality.class_divergence:ClassDivergence",
        "clip_score": "joulelab.quality.clip_score:ClipScore",
        "coherence": "joulelab.quality.coherence:Coherence",
        "fid": "joulelab.quality.fid:Fid",
        "frechet_distance": "joulelab.quality.frechet_distance:FrechetDistance",
        "kl_divergence": "joulelab.quality.kl_divergence:KlDivergence",
        "lpips": "joulelab.quality.lpips:Lpips",
        "mean_average_precision": "joulelab.quality.mean_average_precision:MeanAveragePrecision",
        "perplexity": "joulelab.quality.perplexity:Perplexity",
        "rouge": "joulelab.quality.rouge:Rouge",
        "ssim": "joulelab.quality.ssim:Ssim",
        "token_agreement": "joulelab.quality.token_agreement:TokenAgreement",
    },
)

SUBJECTS: Registry[type[Subject[Any]]] = Registry(
    "workload with outputs to score",
    {
        "bert": "joulelab.workloads.class_subjects:BertSubject",
        "bloom": "joulelab.workloads.language_outputs:LanguageSubject",
        "char-lm": "joulelab.workloads.trained_outputs:CharLmSubject",
        "detection": "joulelab.workloads.detection_outputs:DetectionSubject",
        "diffusion": "joulelab.workloads.diffusion_outputs:DiffusionSubject",
        "digits-diffusion": "joulelab.workloads.trained_outputs:DigitsDiffusionSubject",
        "digits-lstm": "joulelab.workloads.trained_outputs:DigitsLstmSubject",
        "digits-vit": "joulelab.workloads.trained_outputs:DigitsVitSubject",
        "llama": "joulelab.workloads.language_outputs:LanguageSubject",
        "lstm": "joulelab.workloads.class_subjects:LstmSubject",
        "resnet50": "joulelab.workloads.class_subjects:Resnet50Subject",
        "vit": "joulelab.workloads.class_subjects:VitSubject",
        "whisper": "joulelab.workloads.whisper_outputs:WhisperSubject",
    },
)
"""By the name of the workload."""
