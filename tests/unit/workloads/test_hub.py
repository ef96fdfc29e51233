"""Networks come from a configuration, a folder or the hub, whole and in inference mode."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_tensors
from joulelab.workloads import hub

CPU = torch.device("cpu")
CONFIG = transformers.BertConfig(
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    vocab_size=50,
    max_position_embeddings=8,
)


@pytest.fixture
def checkpoint(tmp_path):
    hub.random_model(transformers.AutoModel, CONFIG, torch.float32, CPU).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("auto", [transformers.AutoModel, transformers.BertModel])
def test_a_random_network_is_built_on_its_device_in_its_format(auto):
    network = hub.random_model(auto, CONFIG, torch.bfloat16, torch.device("meta"))

    assert {(p.device.type, p.dtype) for p in network.parameters()} == {("meta", torch.bfloat16)}
    assert not network.training


def test_saved_weights_come_back_bit_for_bit(checkpoint):
    loaded = hub.pretrained_model(transformers.AutoModel, str(checkpoint), torch.float32, CPU)

    saved = load_file(checkpoint / "model.safetensors")
    assert saved.keys() == loaded.state_dict().keys()
    assert all(torch.equal(loaded.state_dict()[name], saved[name]) for name in saved)
    assert not loaded.training


def test_tensors_without_memory_read_no_weights(checkpoint):
    (checkpoint / "model.safetensors").unlink()

    with fake_tensors():
        network = hub.pretrained_model(transformers.AutoModel, str(checkpoint), torch.float32, CPU)

    real = hub.random_model(transformers.AutoModel, CONFIG, torch.float32, CPU)
    assert network.num_parameters() == real.num_parameters()


def test_weights_of_another_task_are_refused_with_what_is_missing(checkpoint):
    with pytest.raises(ConfigError, match=r"lacks \d of its tensors, such as cls\.predictions"):
        hub.pretrained_model(transformers.AutoModelForMaskedLM, str(checkpoint), torch.float32, CPU)


def test_weights_that_lack_a_layer_are_refused(checkpoint):
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    del tensors["pooler.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})

    with pytest.raises(ConfigError, match=r"lacks 1 of its tensors, such as pooler"):
        hub.pretrained_model(transformers.AutoModel, str(checkpoint), torch.float32, CPU)


def test_a_broken_file_is_refused_in_one_line(checkpoint):
    (checkpoint / "model.safetensors").write_bytes(b"no such format")

    with pytest.raises(ConfigError, match=r"weights must be a folder") as caught:
        hub.pretrained_model(transformers.AutoModel, str(checkpoint), torch.float32, CPU)

    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_is_refused_with_what_is_allowed(tmp_path):
    with pytest.raises(ConfigError, match=r"weights must be a folder.*hf auth login"):
        hub.published_config(str(tmp_path / "absent"))
