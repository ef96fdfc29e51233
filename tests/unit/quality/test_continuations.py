"""BLEU, ROUGE and coherence against the packages they come from and closed forms."""

import numpy as np
import pytest

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.base import require_package
from joulelab.quality.continuations import Bleu, Coherence, Rouge, coherence
from joulelab.quality.text_data import TextData

RIGHT = ("the cat sat on the mat by the door", "a dog ran through the park in the rain")
WRITTEN = ("the cat sat on a mat by the window", "a dog walked through the park")
DATA = TextData(name="two", prompts=("p", "q"), references=tuple((each,) for each in RIGHT))
MANY = TextData(name="many", prompts=("p", "q"), references=(RIGHT, (RIGHT[1],)))


def test_bleu_is_that_of_sacrebleu_over_the_whole_corpus():
    from sacrebleu import corpus_bleu

    score = Bleu().score(WRITTEN, DATA, None)

    assert score.value == pytest.approx(corpus_bleu(list(WRITTEN), [list(RIGHT)]).score)
    assert score.n == 2
    assert score.u > 0


def test_bleu_of_the_references_is_100_without_doubt():
    score = Bleu().score(RIGHT, DATA, None)

    assert score.value == pytest.approx(100.0)
    assert score.u == pytest.approx(0.0)


def test_of_several_references_any_may_match():
    assert Bleu().score(RIGHT, MANY, None).value == pytest.approx(100.0)
    assert Rouge().score((RIGHT[1], RIGHT[1]), MANY, None).value == pytest.approx(1.0)


def test_one_text_leaves_the_uncertainty_open():
    data = TextData(name="one", prompts=("p",), references=((RIGHT[0],),))

    assert Bleu().score(WRITTEN[:1], data, None).u is None
    assert Rouge().score(WRITTEN[:1], data, None).u is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("rouge1", 0.8),  # recall 2/3, precision 1
        ("rouge2", 2 / 3),  # recall 1/2, precision 1
        ("rougeL", 0.8),
    ],
)
def test_rouge_is_the_f_measure(kind, value):
    data = TextData(name="one", prompts=("p",), references=(("the cat sat",),))

    assert Rouge(kind=kind).score(["the cat"], data, None).value == pytest.approx(value)


def test_an_empty_continuation_scores_zero():
    assert Bleu().score(["", ""], DATA, None).value == 0
    assert Rouge().score(["", ""], DATA, None).value == 0


def by_first_letter(sentences):
    """Embed a sentence along the axis of its first letter."""
    return np.stack([np.eye(128)[ord(each.strip()[0])] for each in sentences])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A one. A two. A three.", 1.0),
        ("A one. B two! A three?", 0.0),
        ("A one. A two.\nB three", 0.5),
        ("A single sentence", None),
    ],
)
def test_coherence_is_the_similarity_of_neighbours(text, value):
    assert coherence(text, by_first_letter) == value


def test_coherence_without_weights_names_what_needs_none():
    with pytest.raises(ConfigError, match=r"coherence\.weights.*perplexity, token_agreement"):
        Coherence().check(DATA)


def test_coherence_runs_a_sentence_encoder_from_a_folder(tmp_path):
    folder = str(save_encoder(tmp_path))
    metric = Coherence(weights=folder)
    data = TextData(name="two", prompts=("the cat sat.", "the dog sat."))

    alike = metric.score(["the cat sat.", "the dog sat."], data, None)

    assert alike.value == pytest.approx(1.0, abs=1e-5)
    assert alike.n == 2


def test_texts_of_one_sentence_have_no_coherence(tmp_path):
    metric = Coherence(weights=str(save_encoder(tmp_path)))

    with pytest.raises(MeasurementError, match="at least two sentences"):
        metric.score(["cat"], TextData(name="one", prompts=("the",)), None)


def test_weights_that_cannot_be_read_are_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="must be a folder with a checkpoint"):
        Coherence(weights=str(tmp_path)).score(WRITTEN, DATA, None)


def test_data_without_prompts_or_references_is_refused():
    with pytest.raises(ConfigError, match="needs prompts"):
        Bleu().check(TextData(name="texts", texts=("a",)))
    with pytest.raises(ConfigError, match="reference for every prompt"):
        Rouge().check(TextData(name="some", prompts=("a", "b"), references=(("c",), ())))


def test_a_package_that_is_missing_is_named_with_its_extra():
    with pytest.raises(ConfigError, match=r"bleu needs the package none.*joulelab\[quality\]"):
        require_package("bleu", "none", "no_such_module")


def save_encoder(folder):
    from joulelab.workloads import hub  # noqa: F401  # prepares transformers

    from tokenizers import Tokenizer, models, pre_tokenizers  # isort: skip
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # isort: skip

    words = ["[PAD]", "[UNK]", "the", "cat", "dog", "sat", "."]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder
