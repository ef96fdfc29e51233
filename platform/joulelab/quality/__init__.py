"""What the outputs of workloads are worth."""

from joulelab.quality.base import Metric
from joulelab.quality.own import SubjectRegistry
from joulelab.registry import Registry

METRICS: Registry[type[Metric]] = Registry(
    "metric",
    {
        "accuracy": "joulelab.quality.recognition:Accuracy",
        "bleu": "joulelab.quality.continuations:Bleu",
        "box_agreement": "joulelab.quality.recognition:BoxAgreement",
        "class_agreement": "joulelab.quality.recognition:ClassAgreement",
        "class_divergence": "joulelab.quality.recognition:ClassDivergence",
        "clip_score": "joulelab.quality.images:ClipScore",
        "coherence": "joulelab.quality.continuations:Coherence",
        "fid": "joulelab.quality.images:Fid",
        "frechet_distance": "joulelab.quality.images:FrechetDistance",
        "kl_divergence": "joulelab.quality.predictions:KlDivergence",
        "lpips": "joulelab.quality.images:Lpips",
        "mean_average_precision": "joulelab.quality.recognition:MeanAveragePrecision",
        "own_loss": "joulelab.quality.own:OwnLoss",
        "own_score": "joulelab.quality.own:OwnScore",
        "perplexity": "joulelab.quality.predictions:Perplexity",
        "rouge": "joulelab.quality.continuations:Rouge",
        "ssim": "joulelab.quality.images:Ssim",
        "token_agreement": "joulelab.quality.predictions:TokenAgreement",
    },
)

SUBJECTS = SubjectRegistry(
    "workload with outputs to score",
    {
        "bert": "joulelab.quality.vision_subjects:BertSubject",
        "bloom": "joulelab.quality.language_subjects:LanguageSubject",
        "char-lm": "joulelab.quality.language_subjects:CharLmSubject",
        "detection": "joulelab.quality.vision_subjects:DetectionSubject",
        "diffusion": "joulelab.quality.vision_subjects:DiffusionSubject",
        "digits-diffusion": "joulelab.quality.vision_subjects:DigitsDiffusionSubject",
        "digits-lstm": "joulelab.quality.vision_subjects:DigitsLstmSubject",
        "digits-vit": "joulelab.quality.vision_subjects:DigitsVitSubject",
        "llama": "joulelab.quality.language_subjects:LanguageSubject",
        "lstm": "joulelab.quality.vision_subjects:LstmSubject",
        "resnet50": "joulelab.quality.vision_subjects:Resnet50Subject",
        "vit": "joulelab.quality.vision_subjects:VitSubject",
        "whisper": "joulelab.quality.language_subjects:WhisperSubject",
    },
)
"""By the name of the workload, which may also be a user's program."""
