"""`joulelab bench-server` around a real `transformers serve` of a tiny random model."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import joulelab
from joulelab.devices.simulated import fleet
from joulelab.serving.deployment import free_port
from joulelab.tracing.torchvision_shim import ensure_torchvision

# By `transformers serve`, not by this process.
NEEDED = ("fastapi", "uvicorn", "openai", "tokenizers")
if not all(map(find_spec, NEEDED)):
    pytest.skip(f"needs {', '.join(NEEDED)}", allow_module_level=True)

pytestmark = pytest.mark.slow

GPU = "SIM-h200_sxm-0"
SERVE = """
from joulelab.tracing.torchvision_shim import ensure_torchvision
ensure_torchvision()
from transformers.cli.transformers import main
main()
"""
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def save_tiny_model(folder):
    ensure_torchvision()
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<unk>": 0, "<s>": 1, "</s>": 2}
    words |= {word: number for number, word in enumerate(["time", "person", "year"], 3)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=None,  # answers have their full length
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = None
    model.generation_config.suppress_tokens = [0, 1, 2]  # of which an answer would show nothing
    model.save_pretrained(folder)


def test_requests_to_a_real_server_get_energy_and_latencies(tmp_path):
    model, result = tmp_path / "model", tmp_path / "result.json"
    save_tiny_model(model)
    store = tmp_path / "gpus"
    fleet("h200_sxm", 1, str(store))
    port = free_port()
    serve = [sys.executable, "-c", SERVE, "serve", str(model)]
    command = [sys.executable, "-m", "joulelab.cli.main", "bench-server"]
    command += ["--url", f"http://127.0.0.1:{port}", "--json", str(result), "--model", str(model)]
    command += ["--device", "simulated", "--store", str(store), "--uuid", GPU]
    command += ["--requests", "12", "--concurrency", "2", "--output-tokens", "16"]
    command += ["--", *serve, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]

    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(Path(joulelab.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert found["served"]["num_failed"] == 0
    assert found["served"]["has_token_counts"]
    assert found["served"]["output_tokens"] == 12 * 16
    assert 0 < found["metrics"]["ttft_p50_s"] < found["metrics"]["latency_p50_s"]
    assert found["metrics"]["tpot_p50_s"] > 0
    assert found["metrics"]["energy_per_output_token_j"] > 0
