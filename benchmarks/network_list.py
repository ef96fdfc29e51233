"""The networks that test the estimator, as ``joulelab estimate`` takes them.

Geometries are those of the published config.json of each, or of the library's own constructor. With
each but the language models, which all run at the same batch sizes, stands a batch that loads an
H200. Families are told beside those that are alone in theirs.
"""


def of_transformers(model_type: str, **options: object) -> str:
    """Return a network of transformers by its type and what differs from its defaults."""
    values = "&".join(f"{name}={_json(value)}" for name, value in options.items())
    return f"hf:{model_type}?{values}" if values else f"hf:{model_type}"


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def llama(width: int, inner: int, layers: int, heads: int, kv_heads: int, **more: object) -> str:
    """Return a language model of the Llama kind."""
    return of_transformers(
        str(more.pop("kind", "llama")),
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        **{"max_position_embeddings": 4096, **more},
    )


def pythia(width: int, layers: int, heads: int) -> str:
    """Return a language model of the Pythia suite."""
    return of_transformers(
        "gpt_neox",
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        vocab_size=50304,
    )


_QWEN3 = {"kind": "qwen3", "vocab_size": 151936, "head_dim": 128, "tie_word_embeddings": True}
_LLAMA3 = {"vocab_size": 128256, "tie_word_embeddings": True}

# Geometries are those of the published config.json of each.
LANGUAGE = {
    "gpt2": "gpt2",
    "llama-3.2-1b": llama(2048, 8192, 16, 32, 8, head_dim=64, **_LLAMA3),
    "qwen3-0.6b": llama(1024, 3072, 28, 16, 8, **_QWEN3),
    "opt-1.3b": of_transformers(
        "opt",
        hidden_size=2048,
        ffn_dim=8192,
        num_hidden_layers=24,
        num_attention_heads=32,
        word_embed_proj_dim=2048,
    ),
    "pythia-410m": pythia(1024, 24, 16),
    "mixtral-small": llama(
        1024, 3584, 12, 16, 4, kind="mixtral", num_local_experts=8, num_experts_per_tok=2
    ),
    "gpt2-xl": "gpt2-xl",
    "mamba-130m": of_transformers("mamba", hidden_size=768, num_hidden_layers=24),
    "llama-3.2-3b": llama(3072, 8192, 28, 24, 8, head_dim=128, **_LLAMA3),
    "phi-1.5": llama(2048, 8192, 24, 32, 32, kind="phi", vocab_size=51200),
    "qwen2.5-0.5b": "qwen2.5-0.5b",
    "qwen3-1.7b": llama(2048, 6144, 28, 16, 8, **_QWEN3),
}
_OWN = "benchmarks/network_modules.py"

ENCODERS = {
    "bert-base": ("bert-base", 128),
    "distilbert": ("hf:distilbert", 256),
    "deberta-v3-base": (f"{_OWN}:Deberta", 32),
    "roberta-large": (
        of_transformers(
            "roberta",
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
            vocab_size=50265,
            max_position_embeddings=514,
        ),
        64,
    ),
    "t5-base-encoder": (f"{_OWN}:T5Encoder", 64),
    "modernbert-base": ("hf:modernbert", 64),
    "albert-base": (
        of_transformers(
            "albert",
            embedding_size=128,
            hidden_size=768,
            intermediate_size=3072,
            num_attention_heads=12,
        ),
        128,
    ),
}
CONVOLUTIONAL = {
    "efficientnet_b0": ("efficientnet_b0", 256),
    "resnet152": ("resnet152", 64),
    "convnext_tiny": ("convnext_tiny", 128),
    "vgg16": ("vgg16", 64),
    "densenet121": ("densenet121", 128),
    "mobilenet_v3_large": ("mobilenet_v3_large", 512),
    "regnet_y_16gf": ("regnet_y_16gf", 64),
    "inception_v3": ("inception_v3", 128),
    "resnet34": ("resnet34", 256),
    "efficientnet_b4": ("efficientnet_b4", 64),
    "convnext_base": ("convnext_base", 64),
    "wide_resnet50_2": ("wide_resnet50_2", 128),
    "alexnet": ("alexnet", 1024),
    "darknet53": ("timm:darknet53", 128),
}
TRANSFORMERS = {
    "deit_small": ("timm:deit_small_patch16_224", 256),
    "swin_t": ("swin_t", 128),
    "vit_h_14": ("vit_h_14", 32),
    "swin_v2_t": ("swin_v2_t", 64),
    "mixer_b16": ("timm:mixer_b16_224", 128),
    "maxvit_t": ("maxvit_t", 64),
    "swin_b": ("swin_b", 64),
    "beit_base": ("timm:beit_base_patch16_224", 128),
}
OTHERS = {
    "deeplabv3_resnet50": ("dense", "deeplabv3_resnet50", 16),
    "diffusion-unet": ("generative", f"{_OWN}:DiffusionUnet", 64),
    "stacked-lstm": ("recurrent", f"{_OWN}:StackedLstm", 128),
    "detr-resnet50": ("dense", f"{_OWN}:Detr", 8),
    "segformer-b2": ("dense", f"{_OWN}:Segformer", 16),
    "wav2vec2-base": ("speech", f"{_OWN}:Wav2Vec2", 16),
    "yolos-base": ("dense", f"{_OWN}:Yolos", 8),
    "r3d_18": ("video", "r3d_18", 16),
    "lraspp_mobilenet_v3": ("dense", "lraspp_mobilenet_v3_large", 64),
}
SPEECH = ("whisper-small", "whisper-medium")
