"""Published vision networks as configurations of transformers.

Each holds what differs from the defaults of its type, besides the type itself. Sources:
google/vit-base-patch16-224 and google/vit-large-patch16-224 (arXiv:2010.11929, table 1), and for
detection the scripts of transformers that made the checkpoints of the hub,
``convert_rt_detr_original_pytorch_checkpoint_to_hf.py`` (PekingU/rtdetr_r18vd, rtdetr_r50vd) and
``convert_yolos_to_pytorch.py`` (hustvl/yolos-tiny, yolos-small).
"""

from collections.abc import Mapping
from typing import Any

Geometry = Mapping[str, Any]

_IMAGENET_CLASSES = 1000
_COCO_OBJECTS = 80
_COCO_NUMBERS = 91  # of which 11 were never given to an object

VIT: Mapping[str, Geometry] = {
    "tiny": {
        "model_type": "vit",
        "num_labels": 10,
        "image_size": 32,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    },
    "vit-base": {"model_type": "vit", "num_labels": _IMAGENET_CLASSES},
    "vit-large": {
        "model_type": "vit",
        "num_labels": _IMAGENET_CLASSES,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    },
}
"""Classifiers by name."""

_STAGES = {"model_type": "rt_detr_resnet", "out_indices": [2, 3, 4]}

DETECTORS: Mapping[str, Geometry] = {
    "tiny": {
        "model_type": "rt_detr",
        "num_labels": 4,
        "backbone_config": {
            **_STAGES,
            "embedding_size": 16,
            "hidden_sizes": [16, 16, 32, 32],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
        },
        "encoder_in_channels": [16, 32, 32],
        "encoder_hidden_dim": 32,
        "encoder_ffn_dim": 32,
        "encoder_attention_heads": 2,
        "d_model": 32,
        "num_queries": 10,
        "decoder_in_channels": [32, 32, 32],
        "decoder_ffn_dim": 32,
        "decoder_attention_heads": 2,
        "decoder_layers": 1,
    },
    "rtdetr-r18": {
        "model_type": "rt_detr",
        "num_labels": _COCO_OBJECTS,
        "backbone_config": {
            **_STAGES,
            "hidden_sizes": [64, 128, 256, 512],
            "depths": [2, 2, 2, 2],
            "layer_type": "basic",
        },
        "encoder_in_channels": [128, 256, 512],
        "hidden_expansion": 0.5,
        "decoder_layers": 3,
    },
    "rtdetr-r50": {"model_type": "rt_detr", "num_labels": _COCO_OBJECTS},
    "yolos-tiny": {
        "model_type": "yolos",
        "num_labels": _COCO_NUMBERS,
        "image_size": [800, 1333],
        "hidden_size": 192,
        "intermediate_size": 768,
        "num_attention_heads": 3,
        "use_mid_position_embeddings": False,
    },
    "yolos-small": {
        "model_type": "yolos",
        "num_labels": _COCO_NUMBERS,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_attention_heads": 6,
    },
}
"""Detectors by name."""

STRIDES: Mapping[str, int] = {"rt_detr": 32, "yolos": 16}
"""What the sides of an image must be a multiple of: the coarsest grid, the patch."""
