"""Requests that cannot be carried out: wrong flags, files, folders, names and settings.

Words in braces stand for folders: ``{given}`` holds the files of :func:`write_given`, and ``{out}``
is an empty folder of the request's own.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "experiments" / "results" / "h200_studies"
STUDY = RESULTS / "h200-batch-llama-2-7b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command line that must be refused.

    Attributes:
        words: ``joulelab`` or the script of an experiment, and what follows it.
        kind: What is wrong with it.
    """

    words: tuple[str, ...]
    kind: str

    @property
    def name(self) -> str:
        """The command line as one would type it."""
        return " ".join(repr(word) if " " in word or not word else word for word in self.words)


def requests() -> list[Request]:
    """Return every request of the table, each once."""
    made = [*_commands(), *_estimator(), *_measuring(), *_files(), *_experiments()]
    return list({request.words: request for request in made}.values())


def write_given(folder: Path) -> None:
    """Write the files that requests name, most of them malformed."""
    folder.mkdir(parents=True)
    header = "application,gpu,sm_clock_mhz,power_w,time_s,fp_active,dram_active"
    rows = [
        f"{name},NVIDIA H200,{clock},{watts},{1000 / clock:.4f},0.5,0.4"
        for name, watts in (("gemm", 600), ("stream", 400), ("lstm", 300))
        for clock in (1980, 1605, 1200, 795)
    ]
    tables = {
        "runs.csv": [header, *rows],
        "empty.csv": [],
        "header.csv": [header],
        "ragged.csv": [header, rows[0], "gemm,NVIDIA H200", rows[1] + ",7,8,9"],
        "short.csv": [header, rows[0], rows[1].rsplit(",", 2)[0]],
        "words.csv": [header, rows[0].replace("600", "much")],
        "huge.csv": [header, *[row.replace(",600,", ",1e300,") for row in rows]],
        "negative.csv": [header, *[row.replace(",600,", ",-600,") for row in rows]],
        "nan.csv": [header, *[row.replace(",600,", ",nan,") for row in rows]],
        "eternal.csv": [header, *[row.replace(",0.5051,", ",1e12,") for row in rows]],
        "fast.csv": [header, *[row.replace(",1980,", ",1e9,") for row in rows]],
        "doubled.csv": [f"{header},power_w", *[f"{row},5" for row in rows]],
        "columns.csv": ["a,b,c", "1,2,3"],
    }
    samples = "recording,t_s,phase,fp_active,dram_active,power_w"
    lines = [f"r{n},{t / 10},run,0.5,0.{t % 9},{300 + t}" for n in range(3) for t in range(60)]
    tables |= {
        "samples.csv": [samples, *lines],
        "samples_huge.csv": [samples, *[line.replace(",300", ",1e300") for line in lines]],
        "samples_back.csv": [samples, lines[1], lines[0]],
        "samples_far.csv": [samples, lines[0], "r0,1e10,run,0.5,0.3,300"],
        "samples_nan.csv": [samples, lines[0], "r0,nan,run,0.5,0.3,300", lines[2]],
        "samples_ragged.csv": [samples, lines[0], "r0,0.1", f"{lines[2]},1,2,3"],
    }
    sweep = "gpu,app,sm_clock_mhz,power_w,time_s"
    tables |= {
        "sweep_huge.csv": [sweep, "H200,gemm,1980,1e300,1.0", "H200,gemm,1605,400,1.2"],
        "sweep_ragged.csv": [sweep, "H200,gemm,1980", "H200,gemm,1605,400,1.2,1,2"],
        "sweep_columns.csv": ["gpu,app", "H200,gemm"],
    }
    measured = "model,device,precision,batch,time_s,energy_j"
    tables |= {
        "measured_huge.csv": [measured, "resnet50,h200_sxm,fp16,1,0.01,1e308"],
        "measured_batch.csv": [measured, "resnet50,h200_sxm,fp16,1e12,0.01,5"],
        "measured_words.csv": [measured, "resnet50,h200_sxm,fp16,one,0.01,5"],
        "measured_nan.csv": [measured, "resnet50,h200_sxm,fp16,1,nan,inf"],
        "measured_ragged.csv": [measured, "resnet50,h200_sxm"],
    }
    for name, told in tables.items():
        (folder / name).write_text("".join(f"{line}\n" for line in told))
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 64)
    (folder / "nul.csv").write_bytes(b"\n".join([header.encode(), b"ge\0mm,H200,1,2,3,0,0"]))
    (folder / "latin.csv").write_bytes(
        f"{header}\nm\xfcll,NVIDIA H200,1980,5,1,0,0\n".encode("latin-1")
    )
    (folder / "broken.py").write_text("import this_module_does_not_exist\n")
    (folder / "syntax.py").write_text("def broken(:\n")
    (folder / "no_class.py").write_text("value = 1\n")
    (folder / "control\x1b[31mred.csv").write_text("\x1b[2Jcolumns\n1\n")
    (folder / "folder.csv").mkdir()
    _write_stores(folder)


def _write_stores(folder: Path) -> None:
    """Write results folders of which no measurement can be read."""
    torn = {
        "store_binary": bytes(range(256)) * 8,
        "store_words": b"no json\nat all\n",
        "store_json": b'{"a": 1}\n[]\n3\n',
        "store_empty": b"",
        "store_old": b'{"schema_version": 0}\n',
    }
    for name, data in torn.items():
        (folder / name / "measurements").mkdir(parents=True)
        (folder / name / "measurements" / "driver.jsonl").write_bytes(data)
        shutil.copy(STUDY / "study.json", folder / name)
    (folder / "store_header" / "measurements").mkdir(parents=True)
    (folder / "store_header" / "study.json").write_bytes(b"\x00\x01")
    (folder / "store_none").mkdir()
    shutil.copytree(STUDY, folder / "study")
    secret = folder / "store_secret"
    (secret / "measurements").mkdir(parents=True)
    lines = next((STUDY / "measurements").glob("*.jsonl"))
    shutil.copy(lines, secret / "measurements")
    header = json.loads((STUDY / "study.json").read_text())
    header["tracking_uri"] = "http://***@127.0.0.1:9"
    (secret / "study.json").write_text(json.dumps(header))


def _each(kind: str, head: str, *tails: str) -> Iterator[Request]:
    """Yield a request for each of ``tails``, words parted by spaces; ``@`` is an empty word."""
    for tail in tails:
        words = tuple("" if word == "@" else word for word in f"{head} {tail}".split())
        yield Request(words=words, kind=kind)


NUMBERS = ("abc", "nan", "inf", "-1")
"""No length of time and no quantity is any of these."""
BAD_NAMES = (
    "..", ".", "../x", "../../x", "{out}/elsewhere", "a/b", ".hidden", "-", "a\nb",
    "a\x1b[31mb", "a b", "x" * 300, "caf\u00e9", "a\0b", "~root", "a:b",
)  # fmt: skip
BAD_PLACES = (
    "{given}/runs.csv",
    "{given}/runs.csv/below",
    "/proc/nothing",
    "/dev/null",
    f"/opt/{'x' * 300}",
)
BAD_URIS = (
    "http://user:secret@", "http://[::1", "sqlite:///relative.db", "sqlite:////proc/no/mlflow.db",
    "nonsense://host", "http://***@127.0.0.1:9", "http://host:99999", "sqlite:////tmp", "://",
)  # fmt: skip


def _commands() -> Iterator[Request]:
    yield from _each("unknown name", "joulelab", "mesure", "MEASURE", "--versio", "-x", "@", "..")
    yield Request(words=("joulelab",), kind="nothing asked")
    names = (
        "estimate compare sweep memory estimate-cpu estimate-gpu estimate-tpu estimate-kpu "
        "validate calibrate processors models devices doctor measure run bench-server study ui "
        "quality policy report guard "
        "sync repair"
    )
    for name in names.split():
        yield from _each("unknown flag", f"joulelab {name}", "--no-such-flag", "--no-such-flag 3")
    yield from _each("unknown name", "joulelab processors", "--device h9000", "--family npu")
    yield from _each("unknown name", "joulelab models", "--source huggingfac", "trace", "trace fly")
    yield from _each(
        "unknown name", "joulelab devices", "--device cuda", "--device simulated --uuid GPU-none",
        "--device replay", "--device replay --store {given}/nothing",
    )  # fmt: skip
    yield from _each(
        "own program", "joulelab measure", "none.py:step", "{given}/runs.csv:step", "os:nothing",
        "os.py", "train.py:", ":step",
    )  # fmt: skip
    yield from _each(
        "program", "joulelab run", "", "--", "--device cuda -- true", "--uuid GPU-none -- true",
        "--observe-only --sm-clock-mhz 600 --device simulated --gpu h200_sxm -- a",
        "--json /nowhere/x.json --device simulated --gpu h200_sxm -- true",
    )  # fmt: skip
    yield from _each(
        "server", "joulelab bench-server", "", "--url ftp://x", "--url http://127.0.0.1:9 --pid 1",
        "--concurrency 0 -- true", "--rate-per-s nan -- true", "--requests -1 -- true",
    )  # fmt: skip
    yield from _each("study", "joulelab study", "dvsf", "dvfs --every x", "search --objective qep")
    yield from _each("pages", "joulelab ui", "{given}/nothing --no-browse", "--port 99999999")
    yield from _each("no GPU", "joulelab devices", "--device nvml", "--device dcgm", "--device smi")
    yield from _each(
        "unknown name", "joulelab doctor", "--device cuda", "--device simulated --uuid x",
        "--device replay --store {given}/store_binary",
    )  # fmt: skip
    yield from _each(
        "contradiction", "joulelab guard", "--status --stop", "--socket relative.sock --status",
        f"--socket /opt/{'x' * 120}.sock --status", "--socket {given}/runs.csv --status",
        "--socket {out}/none.sock --status", "--socket {out}/none.sock --stop",
        "--ttl-s nan --socket {out}/g.sock", "--ttl-s inf --socket {out}/g.sock",
        "--ttl-s -1 --socket {out}/g.sock", "--ttl-s abc",
        "--group nosuchgroup --socket {out}/g.sock",
        "--socket {given}/no/such/parent/g.sock",
    )  # fmt: skip
    # Lines that are broken are left out and said, so a store of them alone has nothing to deliver.
    for name in ("nothing", "runs.csv", "store_none", "store_old", "store_header"):
        yield from _each("unusable path", "joulelab sync", f"{{given}}/{name}")
    yield from _each("unusable path", "joulelab sync", "/dev/null", f"/opt/{'x' * 300}")
    yield from _each("unusable path", "joulelab report", *_folders(), "{given}/store_header")
    yield from _each(
        "unusable path",
        "joulelab repair",
        "{given}/nothing",
        "{given}/runs.csv",
        "{given}/store_none",
    )
    report = "joulelab report {given}/study"
    yield from _each("out of range", report, "--max-rows -1", "--max-rows x", "--max-rows 0")
    yield from _each("no password", "joulelab sync {given}/store_secret", "", "--json")
    for uri in BAD_URIS:
        yield Request(
            words=("joulelab", "sync", "{given}/store_secret", "--tracking-uri", uri),
            kind="unusable URI",
        )
    yield from _each("unusable path", "joulelab policy", *_folders(), "", str(STUDY))
    yield from _each(
        "out of range", f"joulelab policy {RESULTS}", "--points 0", "--points -1",
        "--points 1000000000", "--objective edq", "--out x.txt", "--plot x.gif",
        "--out {given}/no/such/x.csv", "--plot {given}/no/such/x.png", "--out {given}/folder.csv",
    )  # fmt: skip


def _folders() -> tuple[str, ...]:
    return (
        "{given}/nothing", "{given}/runs.csv", "{given}/store_none", "{given}/store_binary",
        "{given}/store_words", "{given}/store_json", "{given}/store_empty", "{given}/store_old",
        "/dev/null", f"/opt/{'x' * 300}",
    )  # fmt: skip


def _estimator() -> Iterator[Request]:
    asked = "--model resnet50 --device h200_sxm"
    for name in ("estimate", "compare", "sweep", "memory"):
        yield from _each(
            "unknown name", f"joulelab {name}", "--model resnet5000 --device h200_sxm",
            "--model resnet50 --device h9000", "--model , --device h200_sxm",
            "--model {given}/broken.py:Net --device h200_sxm",
            "--model {given}/syntax.py:Net --device h200_sxm",
            "--model {given}/no_class.py:Net --device h200_sxm",
            "--model {given}/nothing.py:Net --device h200_sxm",
            "--model timm: --device h200_sxm", "--model hf:bert?layers=x --device h200_sxm",
        )  # fmt: skip
        yield from _each(
            "out of range", f"joulelab {name} {asked}", "--batch 0", "--batch -1", "--batch 1.5",
            "--batch 1e12", "--batch 1000000000000", "--batch x", "--precision fp7",
            "--num-devices 0", "--num-devices 1000000000", "--knob image_size", "--knob no_such=1",
            "--knob image_size=-1", "--knob image_size=1000000000",
        )  # fmt: skip
    for name in ("estimate", "compare", "estimate-gpu"):
        yield from _each(
            "out of range", f"joulelab {name} {asked}", "--clock-mhz 7", "--clock-mhz -1",
            "--power-limit-w nan", "--power-limit-w inf", "--power-limit-w -5", "--mode fast",
        )  # fmt: skip
    yield from _each(
        "unusable path", f"joulelab estimate {asked}", "--out x.txt", "--out {given}/no/such/x.csv",
        "--out {given}/folder.csv", "--out /proc/x.json", "--out {given}/runs.csv/x.csv",
    )  # fmt: skip
    yield from _each(
        "out of range", f"joulelab sweep {asked}", "--clock-mhz 600:1980",
        "--clock-mhz 1980:600:15",
        "--clock-mhz 600:1980:0", "--clock-mhz 1:1000000000:1", "--clock-mhz a,b", "--clock-mhz 7",
        "--objective edq", "--power-limit-w nan",
    )  # fmt: skip
    for family, device in (
        ("cpu", "h200_sxm"),
        ("gpu", "xeon_8490h"),
        ("tpu", "h200_sxm"),
        ("kpu", "tpu_v4"),
    ):
        yield from _each(
            "other family", f"joulelab estimate-{family} --model resnet50", f"--device {device}",
            "--device none", "--batch 0", "--precision 7",
        )  # fmt: skip


def _measuring() -> Iterator[Request]:
    simulated = "--device simulated --gpu h200_sxm"
    measure = f"joulelab measure idle {simulated}"
    yield from _each("nothing asked", "joulelab measure", "", "gem", "--device simulated")
    yield from _each(
        "unknown name", "joulelab measure idle", "--device cuda", "--device simulated --gpu h9000",
        "--device nvml --gpu h200_sxm", "--device simulated --uuid GPU-none",
        "--device simulated --store {given}/runs.csv", "--device replay --store {given}/binary.csv",
        "--device replay --store {given}/sweep_huge.csv",
        "--device replay --store {given}/folder.csv",
        "--device replay --store {given}/sweep_ragged.csv", "--device replay",
        "--device replay --store {given}/sweep_columns.csv",
        "--device replay --store {given}/nul.csv",
        "--device replay --store {given}/store_json",
        "--device replay --store {given}/store_binary",
        "--device replay --store {given}/empty.csv", "--device replay --store {given}/nothing",
    )  # fmt: skip
    yield from _each("out of range", measure, *_procedures())
    yield from _each(
        "out of range", measure, "--sm-clock-mhz 7", "--sm-clock-mhz -1", "--sm-clock-mhz x",
        "--mem-clock-mhz 7", "--power-limit-w nan", "--power-limit-w inf", "--power-limit-w 1e300",
        "--power-limit-w -1", "--observe-only --sm-clock-mhz 1980",
    )  # fmt: skip
    sockets = (
        "relative.sock", f"/opt/{'x' * 120}.sock", "{given}/runs.csv",
        "{given}/no/such/parent/g.sock",
        "/proc/g.sock",
    )  # fmt: skip
    for socket in sockets:
        yield from _each(
            "unusable socket", f"{measure} --sm-clock-mhz 1980", f"--guard-socket {socket}"
        )
        yield from _each(
            "unusable socket",
            "experiments/dvfs_sweep.py --every 60 --tracking-uri none",
            f"--guard-socket {socket}",
        )
    knobs = (
        "llama --model no-such", "llama --batch 0", "llama --batch x", "llama --precision fp7",
        "llama --batch 1000000000000", "llama --prompt-tokens -1", "llama --new-tokens 0",
        "llama --prompt-tokens 1000000000", "llama --context-tokens -5", "gemm --precision fp3",
        "vit --batch 0", "vit --model none", "diffusion --steps 0", "diffusion --resolution 7",
        "diffusion --steps 1000000000", "lstm --batch -1", "whisper --model none",
        "gemm --data many",
        "llama --kv-cache paged", "stream --precision x", "llama --model ./{given}/store_none",
    )  # fmt: skip
    for knob in knobs:
        yield from _each("wrong knob", f"joulelab measure {knob}", simulated)
    quality = f"joulelab quality digits-vit {simulated} --no-energy"
    yield from _each(
        "nothing asked",
        "joulelab quality",
        "",
        "gemm",
        "char-l",
        "digits-vit --data {given}/binary.csv",
    )
    yield from _each(
        "out of range", quality, "--precisions fp7", "--precisions ,", "--vary batch",
        "--vary batch=x",
        "--vary no_such=1", "--metrics none", "--metrics ,", "--metric accuracy.x=1", "--metric x",
        "--metric nothing.x=1", "--vary batch=0", "--vary =1", "--data {given}/nothing",
        "--vary batch=1000000000000", "--procedure.window-s nan", "--procedure.limit-s inf",
    )  # fmt: skip


def _procedures() -> tuple[str, ...]:
    lengths = ("idle-s", "settle-s", "warmup-min-s", "warmup-max-s", "window-s", "limit-s")
    flags = [
        f"--procedure.{name} {value}"
        for name, value in product(lengths, ("nan", "inf", "-1", "1e9"))
    ]
    others = (
        "window-s 0", "min-windows 0", "min-windows -1", "min-windows 1000000000",
        "min-windows 1.5",
        "relative-ci nan", "relative-ci inf", "relative-ci -1", "sample-period-s nan",
        "sample-period-s 5", "sample-period-s 0", "sampler-budget nan", "sampler-budget -1",
        "sampler-budget 1e9", "start-below-c nan", "start-below-c inf", "start-below-c -400",
        "cool-max-s nan", "cool-max-s inf", "cool-max-s 1e9", "idle-s abc", "window-s 1e400",
    )  # fmt: skip
    return (*flags, *(f"--procedure.{other}" for other in others))


def _files() -> Iterator[Request]:
    bad = [
        "empty",
        "header",
        "ragged",
        "short",
        "words",
        "huge",
        "negative",
        "nan",
        "eternal",
        "fast",
        "doubled",
        "columns",
        "binary",
        "nul",
        "latin",
        "folder",
        "nothing",
    ]
    for name in bad:
        table = f"{{given}}/{name}.csv"
        yield from _each(
            "malformed table", "joulelab models", f"train {table} --out {{out}}/model",
            f"evaluate {table} --model physics",
        )  # fmt: skip
    for name in (
        "empty",
        "header",
        "words",
        "binary",
        "nul",
        "latin",
        "folder",
        "nothing",
        "columns",
    ):
        yield from _each(
            "malformed table", "joulelab", f"validate {{given}}/{name}.csv",
            f"calibrate {{given}}/{name}.csv --device h200_sxm",
        )  # fmt: skip
    yield from _each(
        "malformed table", "joulelab validate", "{given}/measured_huge.csv",
        "{given}/measured_batch.csv",
        "{given}/measured_words.csv", "{given}/measured_nan.csv", "{given}/measured_ragged.csv",
    )  # fmt: skip
    anchors = "experiments/results/h200_anchors/anchors.csv"
    yield from _each(
        "wrong target", f"joulelab calibrate {anchors}", "--device h9000", "--device xeon_8490h",
        "--device h200_sxm --out x.txt", "--device h200_sxm --out {given}/no/such/x.json",
    )  # fmt: skip
    for name in (
        "samples_huge", "samples_back", "samples_far", "samples_nan", "samples_ragged", "binary",
        "nul", "empty", "folder", "nothing",
    ):  # fmt: skip
        yield from _each(
            "malformed samples", "joulelab models trace",
            f"train {{given}}/{name}.csv --out {{out}}/model",
            f"evaluate {{given}}/{name}.csv",
        )  # fmt: skip
    yield from _each(
        "out of range", "joulelab models trace train {given}/samples.csv --out {out}/model",
        *(f"--step-s {value}" for value in (*NUMBERS, "0", "1e-12", "1e9")), "--power-limit-w nan",
        "--power-limit-w -1", "--model none", "--board none", "--seed x", "--seed -1",
    )  # fmt: skip
    yield from _each(
        "out of range", "joulelab models train {given}/runs.csv --out {out}/model", "--power none",
        "--time none", "--seed -1", "--board x", "--board =x", "--repeats all",
    )  # fmt: skip
    yield from _each(
        "unusable path", "joulelab models train {given}/runs.csv", "--out {given}/runs.csv",
        "--out /proc/model", "--out {given}/runs.csv/below", "",
    )  # fmt: skip
    yield from _each(
        "out of range", "joulelab models evaluate {given}/runs.csv", "--probe nan", "--probe inf",
        "--probe -1", "--probe 0", "--probe 5", "--level nan", "--level 2", "--level -1",
        "--held-out nothing", "--model none", "--board H200",
    )  # fmt: skip
    yield from _each(
        "no model", "joulelab models",
        "predict {given}/store_none {given}/runs.csv --sm-clock-mhz 1200",
        "predict {given}/runs.csv {given}/runs.csv --sm-clock-mhz 1200",
        "sweep {given}/nothing --board h200_sxm",
        "predict {given}/nothing {given}/runs.csv --sm-clock-mhz nan",
        "sweep {given}/store_none --board h9000",
        "register {given}/nothing {given}/runs.csv --name x",
        "trace predict {given}/nothing {given}/samples.csv",
        "trace register {given}/nothing {given}/samples.csv --name x", "predict", "register",
        "sweep",
    )  # fmt: skip


SCRIPTS = {
    "dvfs_sweep": (
        "--every 0", "--every -1", "--every x", "--mode fast", "--mode custom", "--clocks-mhz 1980",
        "--mode custom --clocks-mhz 7", "--repeats 0", "--repeats 1000000000", "--sentinel-every 0",
        "--objective qep", "--order-seed x", "gem", "llama --model none", "llama --batch 0",
        "--observe-only --every 60", "llama --batch 1000000000000",
    ),
    "energy_search": (
        "--batches 0", "--batches 1e12", "--batches 1000000000000", "--batches -1", "--batches x",
        "--precisions fp7", "--power-limits-w nan", "--power-limits-w -1", "--power-limits-w 1e300",
        "--vary batch", "--vary no_such=1,2", "--max-slowdown nan", "--max-slowdown inf",
        "--max-slowdown -2", "--max-latency-s nan", "--max-latency-s 0", "--max-power-w nan",
        "--max-power-w -1", "--max-temperature-c inf", "--max-memory-gb nan", "--max-memory-gb -1",
        "--num-trials 0", "--num-trials -1", "--num-trials x", "--wall-s nan", "--wall-s inf",
        "--wall-s 0", "--energy-j nan", "--energy-j inf", "--energy-j -1", "--algorithm fast",
        "--objective qep", "--seed x", "--observe-only --power-limits-w 300", "--vary batch=1,1e12",
    ),
    "qep_search": (
        "--quality-floor 2", "--quality-floor nan", "--quality-floor -1", "--quality-floor inf",
        "--quality-floor x", "--exponents nan 1", "--exponents inf 1", "--exponents 1",
        "--exponents -1 1", "--metric none", "--algorithm fast", "gemm", "os:getcwd",
        "--precisions fp7",
        "--batches 0", "--num-trials 0", "--vary steps", "--max-slowdown nan",
    ),
    "batch_scaling": (
        "--batches 0", "--batches 1e12", "--batches 1000000000000", "--precisions fp7",
        "--repeats 0",
        "--batches", "--precisions", "llama --model none", "gem", "--repeats 1000000000", "stream",
    ),
    "precision_study": (
        "--precisions fp7", "--batches 0", "--batches 1000000000000", "--repeats -1",
        "--precisions",
        "vit --model none", "gem", "--order-seed x", "idle",
    ),
    "length_scaling": (
        "--lengths 0", "--lengths -5", "--lengths 1000000000", "--lengths x", "vit", "--batches 0",
        "--repeats 0", "--lengths",
    ),
    "model_size": (
        "--models none", "--models", "--batches 0", "--repeats 0", "gem", "vit --models none",
        "--batches 1000000000000",
    ),
    "diffusion_study": (
        "--schedulers none", "--schedulers", "--resolutions 7", "--resolutions 0", "--num-steps 0",
        "--num-steps 1000000000", "--num-steps x", "llama", "--repeats 0",
    ),
    "workload_matrix": (
        "--only none", "--precisions fp7", "--batches 0", "--batches 1000000000000", "--repeats 0",
        "--repeats -1 --plan", "--budget-s nan", "--budget-s inf", "--budget-s -1",
        "--budget-s 0.001",
        "--table", "--table --study none-such", "--plan --table", "--batches x --plan",
        "--repeats 1000000000 --plan", "--table --study ..",
    ),
    "baseline": ("--recipe none", "--repeats 0", "--repeats -1", "--repeats 1000000000",
        "--seed x"),
}  # fmt: skip


def _experiments() -> Iterator[Request]:
    for script, flags in SCRIPTS.items():
        yield from _each("experiment", f"experiments/{script}.py", "--no-such-flag", *flags)
    for number, (script, settings) in enumerate(product(SCRIPTS, _laboratory())):
        # Each script has a third of them, and a third of the scripts has each.
        if number % 3 == 0 or script in ("dvfs_sweep",):
            kind, words = settings
            yield Request(words=(f"experiments/{script}.py", *words), kind=kind)


def _laboratory() -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in BAD_NAMES:
        yield "bad name", ("--study", name)
    for place in BAD_PLACES:
        yield "unusable path", ("--results-dir", place)
        yield "unusable path", ("--store", place)
    for uri in BAD_URIS:
        yield "unusable URI", ("--tracking-uri", uri)
    for words in (
        "--gpu h9000", "--num-gpus 0", "--num-gpus -1", "--num-gpus x", "--num-gpus 1000000000",
        "--device cuda", "--device replay", "--device replay --store {given}/binary.csv",
        "--procedure.window-s nan", "--procedure.window-s 1e9", "--procedure.limit-s inf",
        "--procedure.min-windows 1000000000", "--procedure.idle-s -1", "--procedure.settle-s inf",
        "--device replay --store {given}/store_words", "--procedure.relative-ci nan",
    ):  # fmt: skip
        yield "laboratory", tuple(words.split())
