"""Programs whose energy is measured."""

from typing import Any

from joulelab.registry import Registry
from joulelab.workloads.base import Workload

WORKLOADS: Registry[type[Workload[Any]]] = Registry(
    "workload",
    {
        "bert": "joulelab.workloads.bert:Bert",
        "bloom": "joulelab.workloads.bloom:Bloom",
        "char-lm": "joulelab.workloads.char_lm:CharLm",
        "detection": "joulelab.workloads.detection:Detection",
        "diffusion": "joulelab.workloads.diffusion:Diffusion",
        "digits-diffusion": "joulelab.workloads.digits_diffusion:DigitsDiffusion",
        "digits-lstm": "joulelab.workloads.digits_lstm:DigitsLstm",
        "digits-vit": "joulelab.workloads.digits_vit:DigitsVit",
        "gemm": "joulelab.workloads.gemm:Gemm",
        "idle": "joulelab.workloads.idle:Idle",
        "llama": "joulelab.workloads.llama:Llama",
        "lstm": "joulelab.workloads.lstm:Lstm",
        "recorded": "joulelab.workloads.recorded:Recorded",
        "resnet50": "joulelab.workloads.resnet50:Resnet50",
        "stream": "joulelab.workloads.stream:Stream",
        "vit": "joulelab.workloads.vit:Vit",
        "whisper": "joulelab.workloads.whisper:Whisper",
    },
)
