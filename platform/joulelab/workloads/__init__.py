"""Programs whose energy is measured.

Modules that import torch at their top are imported only by functions that run, trace or score a
network: here, and in quality and tracing.
"""

from joulelab.workloads.programs import WorkloadRegistry

WORKLOADS = WorkloadRegistry(
    {
        "bert": "joulelab.workloads.bert:Bert",
        "bloom": "joulelab.workloads.language:Bloom",
        "char-lm": "joulelab.workloads.char_lm:CharLm",
        "detection": "joulelab.workloads.detection:Detection",
        "diffusion": "joulelab.workloads.diffusion:Diffusion",
        "digits-diffusion": "joulelab.workloads.digits:DigitsDiffusion",
        "digits-lstm": "joulelab.workloads.digits:DigitsLstm",
        "digits-vit": "joulelab.workloads.digits:DigitsVit",
        "gemm": "joulelab.workloads.launch_loop:Gemm",
        "idle": "joulelab.workloads.idle:Idle",
        "llama": "joulelab.workloads.llama:Llama",
        "lstm": "joulelab.workloads.lstm:Lstm",
        "recorded": "joulelab.workloads.idle:Recorded",
        "resnet50": "joulelab.workloads.classification:Resnet50",
        "server": "joulelab.serving.workload:Server",
        "stream": "joulelab.workloads.launch_loop:Stream",
        "vit": "joulelab.workloads.classification:Vit",
        "whisper": "joulelab.workloads.whisper:Whisper",
    },
)
