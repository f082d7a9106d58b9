"""The commands of llmc on a tiny bundle: what they print, and that they import little."""

import json
import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import llmc.runtime
from llmc.tools.bundles import advise_on_dtype
from llmc.tools.llmc import main

LLMC = Path(sys.executable).with_name("llmc")


@pytest.fixture(scope="module")
def model(tiny_bundle):
    return llmc.runtime.load(tiny_bundle)


@pytest.fixture
def llmc_out(capfd):
    """Runs a command that succeeds; its standard output."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        return capfd.readouterr().out

    return run


def test_run_streams_the_answer(llmc_out, tiny_bundle, model):
    expected = model.generate("Hello", max_new_tokens=40)
    assert len(expected.text) > 10
    answer = llmc_out("run", tiny_bundle, "--prompt", "Hello", "--max-new-tokens", 40)
    assert answer == expected.text + "\n"


def test_run_json(llmc_out, tiny_bundle, model):
    words = ("run", tiny_bundle, "--prompt", "Grüß", "--max-new-tokens", 9, "--json")
    facts = json.loads(llmc_out(*words))
    expected = model.generate("Grüß", max_new_tokens=9)
    assert list(facts) == [
        "prompt",
        "prompt_token_ids",
        "token_ids",
        "text",
        "finish_reason",
        "prefill_tokens_per_s",
        "decode_tokens_per_s",
        "load_s",
        "compile_s",
        "bytes_moved",
        "peak_rss_bytes",
    ]
    assert facts["prompt"] == "Grüß"
    assert facts["prompt_token_ids"] == model.encode("Grüß")
    assert facts["token_ids"] == expected.token_ids
    assert facts["text"] == expected.text
    assert facts["finish_reason"] == "length"
    assert facts["prefill_tokens_per_s"] > 0
    assert facts["decode_tokens_per_s"] > 0
    assert 0 < facts["load_s"] < 60
    assert facts["compile_s"] == 0
    assert 10e6 < facts["peak_rss_bytes"] < 100e9


def test_raw_prompt_is_left_as_it_is(llmc_out, tiny_bundle, model):
    words = ("run", tiny_bundle, "--prompt", "Hello", "--max-new-tokens", 1, "--json")
    raw, chat = json.loads(llmc_out(*words, "--raw")), json.loads(llmc_out(*words))
    assert model.tokenizer.decode(raw["prompt_token_ids"]) == "Hello"
    assert len(chat["prompt_token_ids"]) > len(raw["prompt_token_ids"])


def test_stop_strings_end_the_text_before_them(llmc_out, tiny_bundle, model):
    text = model.generate("Hello", max_new_tokens=60).text
    late, early = text[20:23], text[10:12]
    words = ["run", tiny_bundle, "--prompt", "Hello", "--max-new-tokens", 60, "--json"]
    facts = json.loads(llmc_out(*words, f"--stop={late}", f"--stop={early}"))
    assert facts["text"] == text[: min(text.index(late), text.index(early))]
    assert facts["finish_reason"] == "stop"


def test_same_seed_same_text(llmc_out, tiny_bundle):
    words = ("run", tiny_bundle, "--prompt", "Hello", "--max-new-tokens", 40)
    sampling = ("--temperature", 2, "--top-k", 50, "--top-p", 0.95, "--min-p", 0.01)
    first, again, other = (llmc_out(*words, *sampling, "--seed", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_repetition_penalty_is_applied(llmc_out, endless_bundle):
    words = ("run", endless_bundle, "--prompt", "Hello", "--max-new-tokens", 60, "--json")
    penalised = json.loads(llmc_out(*words, "--repetition-penalty", 100))["token_ids"]
    assert len(set(penalised)) == len(penalised)


def test_end_of_the_context(llmc_out, tiny_bundle, capfd, tmp_path):
    shutil.copytree(tiny_bundle, tmp_path / "bundle")
    path = tmp_path / "bundle" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "context": 12}))
    words = ("run", tmp_path / "bundle", "--raw", "--prompt", "0123456789")
    facts = json.loads(llmc_out(*words, "--json"))
    assert facts["finish_reason"] == "length"
    assert len(facts["prompt_token_ids"]) + len(facts["token_ids"]) <= 12
    assert main([*map(str, words)]) == 0
    assert "12 tokens is full" in capfd.readouterr().err


def test_logits(llmc_out, tiny_bundle, model, tmp_path):
    tokens = [1, 50, 7, 300]
    words = ("logits", tiny_bundle, "--tokens", "1,50,7,300", "-o")
    assert llmc_out(*words, tmp_path / "last.npy") == ""
    llmc_out(*words, tmp_path / "all", "--all")
    last, every = np.load(tmp_path / "last.npy"), np.load(tmp_path / "all")
    assert last.dtype == every.dtype == np.float32
    assert every.shape == (4, 320)
    np.testing.assert_array_equal(last, model.logits(tokens))
    np.testing.assert_allclose(every[-1], last, atol=1e-5)
    np.testing.assert_allclose(every[1], model.logits(tokens[:2]), atol=1e-5)
    assert len(list(tmp_path.iterdir())) == 2


def test_logits_go_where_a_link_or_a_pipe_leads(llmc_out, tiny_bundle, model, tmp_path):
    words = ("logits", tiny_bundle, "--tokens", "1,50", "-o")
    link, target, pipe = (tmp_path / name for name in ("link", "target", "pipe"))
    link.symlink_to(target)
    llmc_out(*words, link)
    assert link.is_symlink()
    np.testing.assert_array_equal(np.load(target), model.logits([1, 50]))
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(pipe.read_bytes)
        llmc_out(*words, pipe)
        assert read.result() == target.read_bytes()


def test_inspect(llmc_out, tiny_bundle):
    manifest = json.loads((tiny_bundle / "manifest.json").read_text())
    assert json.loads(llmc_out("inspect", tiny_bundle, "--json")) == manifest
    text = llmc_out("inspect", tiny_bundle, "--verify")
    assert "llama, 2 layers" in text
    assert "params.irpa" in text
    (code,) = manifest["modules"]
    assert f"{code['dispatches']['greedy']} for each token" in text
    archive = manifest["files"]["params.irpa"]["size"]
    assert 0.9 * archive < sum(code["weight_bytes"].values()) <= archive


@pytest.mark.parametrize(
    ("dtype", "archives", "told"),
    [
        (None, {("cpu", 0): 400}, True),
        (None, {("cpu", 0): 200, ("cpu", 1): 200}, True),
        (None, {("cpu", 0): 100, ("vulkan", 0): 100}, False),
        ("f32", {("cpu", 0): 400}, False),
    ],
)
def test_who_chose_no_dtype_is_told_of_narrower_weights(
    dtype, archives, told, tiny_bundle, capfd, tmp_path
):
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(100))
    manifest = json.loads((tiny_bundle / "manifest.json").read_text())
    (code,), files = manifest["modules"], manifest["files"]
    manifest["modules"] = []
    for number, ((device, rank), size) in enumerate(archives.items()):
        archive, target = f"params.{number}.irpa", {**code["target"], "device": device}
        files[archive] = {**files["params.irpa"], "size": size}
        manifest["modules"] += [{**code, "target": target, "rank": rank, "parameters": archive}]
    manifest["grid"] = [{"name": "tp", "size": 1 + max(rank for _, rank in archives)}]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    advise_on_dtype(Namespace(model=model, dtype=dtype), tmp_path)
    assert ("--dtype as-is" in capfd.readouterr().err) == told


@pytest.mark.parametrize(
    ("dtype", "stored", "told"),
    [
        ("q4_0", {"q4_0": 95, "f32": 5}, False),
        ("q4_0", {"q4_0": 40, "f16": 60}, True),
        ("int4_g128", {"int4_g64": 100}, True),
        ("f16", {"f16": 10, "f32": 90}, False),
    ],
)
def test_who_chose_blocks_is_told_of_weights_without(
    dtype, stored, told, tiny_bundle, capfd, tmp_path
):
    manifest = json.loads((tiny_bundle / "manifest.json").read_text())
    manifest["modules"][0]["weight_bytes"] = stored
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    advise_on_dtype(Namespace(model=tiny_bundle, dtype=dtype), tmp_path)
    assert (f"not all weights can be {dtype}" in capfd.readouterr().err) == told


def test_devices(llmc_out):
    cpu, *gpus = json.loads(llmc_out("devices", "--json"))
    assert cpu["kind"] == "cpu"
    # A CPU of the last decade, and no computer yet.
    assert 1e8 < cpu["read_bytes_per_s"] < 1e13
    assert 1e9 < cpu["float_ops_per_s"] < 1e15
    assert {gpu["kind"] for gpu in gpus} <= {"vulkan", "cuda"}
    assert cpu["name"].split()[0] in llmc_out("devices", "--no-measure")


def test_compiling_a_bundle_copies_it(llmc_out, tiny_bundle, tmp_path):
    assert llmc_out("compile", tiny_bundle, "-o", tmp_path / "copy") == f"{tmp_path / 'copy'}\n"
    names = {path.name for path in tiny_bundle.iterdir()}
    assert {path.name for path in (tmp_path / "copy").iterdir()} == names
    llmc_out("inspect", tmp_path / "copy", "--verify")
    llmc_out("compile", tiny_bundle, "-o", tmp_path / "copy")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture(autouse=True)
def buffered(monkeypatch):
    """As users have it: output that Python could not write is written again when it ends."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def llmc_process(*words: object, **options) -> subprocess.Popen:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([LLMC, *map(str, words)], **{**pipes, **options})


def test_prompt_from_standard_input(tiny_bundle, model):
    process = llmc_process("run", tiny_bundle, "--prompt", "-", "--max-new-tokens", 9, "--json")
    out, err = process.communicate("Grüß\n\n".encode())
    facts = json.loads(out)
    assert facts["prompt"] == "Grüß\n"
    assert facts["token_ids"] == model.generate("Grüß\n", max_new_tokens=9).token_ids
    assert err == b""


def test_closed_pipe_is_no_error(endless_bundle):
    process = llmc_process("run", endless_bundle, "--prompt", "Hello", "--max-new-tokens", 8000)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait() == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_terminal_without_unicode(endless_bundle, model):
    words = ("run", endless_bundle, "--prompt", "Hello", "--max-new-tokens", 99)
    process = llmc_process(*words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out = process.communicate()[0]
    assert process.returncode == 0
    assert b"\\u" in out


def test_interrupted_run_is_silent(endless_bundle):
    process = llmc_process("run", endless_bundle, "--prompt", "Hello", "--max-new-tokens", 8000)
    process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == b""
    assert process.returncode == 128 + signal.SIGINT


UNUSED = ("rich", "importlib.metadata", "llmc.runtime.ranks.local")
FORBIDDEN = ("torch", "torch_mlir", "transformers", "iree.compiler")
LIGHT = f"""
import sys
import llmc.runtime
from llmc.tools.llmc import main

model, bundle = sys.argv[1:]
llmc.runtime.load(bundle).generate("Hello", raw=True, max_new_tokens=2)
assert "jinja2" not in sys.modules
assert main(["run", bundle, "--prompt", "Hello", "--max-new-tokens", "2"]) == 0
assert not [name for name in {UNUSED} if name in sys.modules]
assert main(["run", model, "--prompt", "Hello", "--max-new-tokens", "2"]) == 0
assert main(["inspect", bundle]) == 0
assert "llmc.tools.commands.bench" not in sys.modules
try:
    main(["--help"])
except SystemExit:
    pass
assert not [name for name in {FORBIDDEN} if name in sys.modules]
"""


def test_running_needs_neither_pytorch_nor_the_compiler(tiny_folder, tiny_cache, tiny_bundle):
    """Nor does finding the bundle of a model in the cache."""
    result = subprocess.run(
        [sys.executable, "-c", LIGHT, tiny_folder, tiny_bundle],
        env={**os.environ, "LLMC_CACHE": str(tiny_cache)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
