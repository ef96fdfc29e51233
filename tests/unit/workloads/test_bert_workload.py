"""The BERT workload costs what counting says, and runs published shapes."""

import pytest
import torch
import transformers

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.workloads import hub
from joulelab.workloads.bert import CONFIGS, Bert, BertSettings

CPU = torch.device("cpu")
# Sums of the tensors of google-bert/bert-*-uncased without pooler and pretraining heads.
ENCODER_PARAMETERS = {"bert-base": 108_891_648, "bert-large": 334_092_288}


def checkpoint(folder, auto, **changes):
    config = transformers.BertConfig(**{**CONFIGS["tiny"], **changes})
    hub.random_model(auto, config, torch.float32, CPU).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("model", "encoder"), ENCODER_PARAMETERS.items())
def test_the_network_has_the_parameters_of_the_published_one_and_an_answering_head(model, encoder):
    network, _ = Bert(BertSettings(model=model)).load(torch.device("meta"))

    head = 2 * network.config.hidden_size + 2
    assert sum(weights.numel() for weights in network.parameters()) == encoder + head


def test_operations_are_those_of_the_closed_form():
    settings = BertSettings(model="bert-base", batch=32, tokens=384)

    forward = Bert(settings).cost().phase("forward")

    width, layers, rows = 768, 12, 32 * 384
    products = 2 * rows * layers * (4 * width**2 + 2 * width * 4 * width) + 2 * rows * 2 * width
    attention = 4 * layers * width * 32 * 384**2
    counted = sum(k.flop * k.count for k in forward.kernels if k.pipe == "tensor_bf16")
    assert counted == products + attention
    assert forward.flop == pytest.approx(counted, rel=0.02)
    assert forward.work == 32


def test_short_batches_run_more_often_and_cost_as_much_more():
    once, often = (
        Bert(BertSettings(model="tiny", batch=batch, tokens=16)).cost().phase("forward")
        for batch in (32, 8)
    )

    assert often.work == once.work == 32
    assert often.num_launches == 4 * once.num_launches


def test_bad_knobs_are_refused_with_what_is_allowed():
    with pytest.raises(ConfigError, match=r"tokens must be at most 512 for BERT, got 513\."):
        BertSettings(tokens=513)
    with pytest.raises(ConfigError, match=r"batch must be a whole number of at least 1, got 0\."):
        BertSettings(batch=0)
    with pytest.raises(UnknownNameError, match="bert-large"):
        BertSettings(model="bert-larg")


def test_a_checkpoint_trained_to_answer_runs(tmp_path):
    weights = checkpoint(tmp_path, transformers.AutoModelForQuestionAnswering)
    workload = Bert(BertSettings(model="tiny", weights=weights, precision="fp32", tokens=8))
    workload.prepare()

    work = workload.run("forward")

    workload.close()
    assert work == workload.cost().phase("forward").work


@pytest.mark.parametrize(
    ("auto", "changes", "said"),
    [
        ("AutoModelForMaskedLM", {}, r"lacks 2 of its tensors, such as qa_outputs"),
        ("AutoModelForQuestionAnswering", {"num_hidden_layers": 1}, r"layers 1 \(not 2\)"),
    ],
)
def test_weights_of_another_task_or_shape_are_refused(tmp_path, auto, changes, said):
    weights = checkpoint(tmp_path, getattr(transformers, auto), **changes)
    workload = Bert(BertSettings(model="tiny", weights=weights, precision="fp32", tokens=8))

    with pytest.raises(ConfigError, match=said):
        workload.prepare()
