"""What a user can get wrong costs one line and status 2, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from llmc.pipelines.parameters import write_archive
from llmc.runtime.devices import host_arch
from llmc.tools.llmc import main

pytestmark = pytest.mark.usefixtures("imported_once")

LLMC = Path(sys.executable).with_name("llmc")


def only_line(text: str) -> str:
    """The one line that `text` is."""
    (line,) = text.splitlines()
    assert line.startswith("llmc: error: ")
    assert line.isprintable()
    assert len(line) > len("llmc: error: ") + 10
    return line


@pytest.fixture
def refusal(capfd):
    """Runs a command that must be refused; the line that it writes."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        return only_line(err)

    return run


FOREIGN = "x86-64-v3" if host_arch() == "aarch64" else "armv8.2"
SHARDED = ("FOLDER", "--grid", "tp=2", "--stop-after", "shard")


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ((), "COMMAND"),
        (("zork",), "zork"),
        (("run",), "MODEL"),
        (("run", "BUNDLE"), "--prompt"),
        (("run", "BUNDLE", "--prompt", "x", "--zork"), "--zork"),
        (("run", "BUNDLE", "--prompt", "x", "--max-new", "3"), "--max-new"),
        (("run", "BUNDLE", "--raw", "--prompt", ""), "empty"),
        (("run", "BUNDLE", "--prompt", "\udcff"), "UTF-8"),
        (("run", "BUNDLE", "--prompt", "x" * 9000), "8192"),
        (("run", "BUNDLE", "--prompt", "x", "--max-new-tokens", "0"), "--max-new-tokens"),
        (("run", "BUNDLE", "--prompt", "x", "--max-new-tokens", "-1"), "--max-new-tokens"),
        (("run", "BUNDLE", "--prompt", "x", "--max-new-tokens", "1e3"), "--max-new-tokens"),
        (("run", "BUNDLE", "--prompt", "x", "--threads", "0"), "--threads"),
        (("run", "BUNDLE", "--prompt", "x", "--temperature", "-1"), "temperature"),
        (("run", "BUNDLE", "--prompt", "x", "--temperature", "nan"), "temperature"),
        (("run", "BUNDLE", "--prompt", "x", "--temperature", "inf"), "temperature"),
        (("run", "BUNDLE", "--prompt", "x", "--top-k", "-1"), "top_k"),
        (("run", "BUNDLE", "--prompt", "x", "--top-p", "1.5"), "top_p"),
        (("run", "BUNDLE", "--prompt", "x", "--min-p", "-0.1"), "min_p"),
        (("run", "BUNDLE", "--prompt", "x", "--repetition-penalty", "0"), "repetition_penalty"),
        (("run", "BUNDLE", "--prompt", "x", "--seed", "-1"), "seed"),
        (("run", "BUNDLE", "--prompt", "x", "--stop", ""), "--stop"),
        (("run", "BUNDLE", "--prompt", "x", "--stop", "\udcff"), "UTF-8"),
        (("run", "BUNDLE", "--prompt", "x", "--dtype", "f16"), "--dtype"),
        (("run", "BUNDLE", "--prompt", "x", "--dump-ir", "OUT"), "--dump-ir"),
        (("chat", "BUNDLE", "--layers", "1"), "--layers"),
        (("compile", "FOLDER", "--target", "cpu:"), "no target"),
        (("bench", "FOLDER", "--target", f"cpu:{FOREIGN}"), "cannot be measured here"),
        (("compile", "FOLDER", "--grid", "tp"), "tp"),
        (("compile", "FOLDER", "--grid", "tp=1"), "one rank"),
        (("compile", "FOLDER", "--grid", "xp=2"), "xp"),
        (("compile", "FOLDER", "--grid", "tp=5"), "4 heads"),
        (("compile", "FOLDER", "--grid", "pp=3"), "2 layers"),
        (("compile", "FOLDER", "--grid", "tp=2", "--target", "vulkan:baseline"), "collectives"),
        (("compile", "FOLDER", "--grid", "pp=2", "--target", "cuda:sm_80"), "pp"),
        (("compile", *SHARDED, "--target", "vulkan:baseline"), "collectives"),
        (("compile", *SHARDED, "--start-from", "OUT"), "--grid"),
        (("compile", "FOLDER", "--plan", "ABSENT"), "ABSENT"),
        (("tune",), "MODEL"),
        (("tune", "--list", "--dump-ir", "OUT"), "--dump-ir"),
        (("plan", "FOLDER", "--device", "host", "--dump-ir", "OUT"), "--dump-ir"),
        (("tune", "--list", "--kernels", "matvec"), "leave out what chooses"),
        (("tune", "--forget", "--target", "cpu:zen4"), "leave out what chooses"),
        (("tune", "BUNDLE"), "compiled already"),
        (("tune", "BUNDLE", "--kernels", "("), "--kernels"),
        (("chat", "BUNDLE", "--temperature", "-1"), "temperature"),
        (("logits", "BUNDLE", "--tokens", "", "-o", "OUT"), "--tokens"),
        (("logits", "BUNDLE", "--tokens", "1,x", "-o", "OUT"), "--tokens"),
        (("logits", "BUNDLE", "--tokens=-1,2", "-o", "OUT"), "-1"),
        (("logits", "BUNDLE", "--tokens", "1,320", "-o", "OUT"), "320"),
        (("logits", "BUNDLE", "--tokens", ",".join(["1"] * 9000), "-o", "OUT"), "8192"),
        (("logits", "BUNDLE", "--tokens", "1", "-o", "OUT/absent/x.npy"), "OUT"),
        (("logits", "BUNDLE", "--tokens", "1", "-o", "/dev/null/x.npy"), "/dev/null"),
        (("inspect", "FOLDER"), "bundle"),
        (("inspect", "OUT"), "bundle"),
        (("inspect", "OUT\x1b[2J"), "bundle"),
        (("compile", "BUNDLE", "--context", "9"), "--context"),
        (("compile", "BUNDLE", "--stop-after", "linalg"), "--stop-after"),
        (("compile", "BUNDLE", "-o", "OUT", "--start-from", "OUT"), "--start-from"),
        (("compile", "BUNDLE", "-o", "FOLDER"), "other files"),
        (("compile", "OUT"), "no model"),
        (("compile", "OUT" * 99), "name too long"),
        (("compile", "FOLDER", "-o", "FOLDER"), "other files"),
        (("compile", "FOLDER", "-o", "OUT", "--dtype", "f8"), "--dtype"),
        (("compile", "FOLDER", "-o", "OUT", "--target", "zork"), "zork"),
        (("compile", "FOLDER", "-o", "OUT", "--target", "cpu:zork"), "zork"),
        (("compile", "FOLDER", "-o", "OUT", "--target", "vulkan:zork"), "zork"),
        (("compile", "FOLDER", "-o", "OUT", "--target", "cpu,cuda:zork"), "zork"),
        (("compile", "FOLDER", "-o", "OUT", "--target", "cpu,cpu"), "twice"),
        (("run", "BUNDLE", "--prompt", "x", "--device", "zork"), "zork"),
        (("run", "BUNDLE", "--prompt", "x", "--device", "cpu:1"), "cpu:1"),
        (("run", "BUNDLE", "--prompt", "x", "--device", "cuda"), "CUDA"),
        (("run", "BUNDLE", "--prompt", "x", "--overlap"), "--overlap"),
        # Before they compile.
        (("run", "FOLDER", "--prompt", "x", "--device", "cuda"), "CUDA"),
        (("chat", "FOLDER", "--local"), "--grid"),
        (("chat", "FOLDER", "--local", "--grid", "tp=1"), "--grid"),
        (("run", "FOLDER", "--prompt", "x", "--grid", "tp=2"), "--local"),
        (("compile", "FOLDER", "--grid", ""), "--grid"),
        (("compile", "FOLDER", "--plan", ""), "--plan"),
        (("compile", "FOLDER", "-o", "OUT", "--context", "-3"), "--context"),
        (("compile", "FOLDER", "-o", "OUT", "--context", "40000"), "32768"),
        (("compile", "FOLDER", "-o", "OUT", "--layers", "0"), "--layers"),
        (("compile", "FOLDER", "-o", "OUT", "--layers", "3"), "2"),
        (("compile", "FOLDER", "-o", "/dev/null/x"), "/dev/null"),
    ],
)
def test_wrong_words(refusal, tiny_bundle, tiny_folder, tmp_path, words, about):
    places = {"BUNDLE": tiny_bundle, "FOLDER": tiny_folder, "OUT": tmp_path / "out"}
    for name, path in places.items():
        words = [word.replace(name, str(path)) for word in words]
    assert about.replace("OUT", str(tmp_path)) in refusal(*words)
    assert not list(tmp_path.iterdir())


def edit(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


BAD_MODELS = {
    "missing": (shutil.rmtree, "no model"),
    "empty": (lambda f: shutil.rmtree(f) or f.mkdir(), "config.json"),
    "weights cut short": (lambda f: os.truncate(f / "model.safetensors", 1000), "safetensors"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "safetensors"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer"),
    "unknown family": (lambda f: edit(f / "config.json", model_type="zork"), "zork"),
    "family that is no decoder": (lambda f: edit(f / "config.json", model_type="vit"), "vit"),
    "other vocabulary": (lambda f: edit(f / "config.json", vocab_size=400), "400"),
    "negative size": (lambda f: edit(f / "config.json", hidden_size=-64), "config.json"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_folder(refusal, tiny_folder, tmp_path, name):
    spoil, about = BAD_MODELS[name]
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    spoil(folder)
    assert about in refusal("compile", folder, "-o", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} <= {"model"}


def empty_gguf(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


BAD_FILES = {
    "nothing": Path.touch,
    "text": lambda path: path.write_text("once upon a time"),
    "magic alone": lambda path: path.write_bytes(b"GGUF"),
    "no tensors": empty_gguf,
    "pickle": lambda path: path.write_bytes(b"PK\x03\x04"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file(refusal, tmp_path, name):
    path = tmp_path / "model.gguf"
    BAD_FILES[name](path)
    assert str(path) in refusal("compile", path, "-o", tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


def edit_target(folder: Path, **facts: object) -> None:
    (code,) = json.loads((folder / "manifest.json").read_text())["modules"]
    edit(folder / "manifest.json", modules=[{**code, "target": {**code["target"], **facts}}])


def with_offset_past_the_end(folder: Path) -> None:
    with (folder / "params.irpa").open("r+b") as archive:
        archive.seek(40)
        archive.write((2**40).to_bytes(8, "little"))


def for_another_cpu(folder: Path) -> None:
    edit_target(folder, name="zen9", features=["avx4096"])


def for_another_architecture(folder: Path) -> None:
    edit_target(folder, arch={"x86_64": "aarch64", "aarch64": "x86_64"}[host_arch()])


def for_another_gpu(folder: Path) -> None:
    edit_target(folder, device="cuda", arch="sm_80", features=[])


BAD_BUNDLES = {
    "another CPU": (for_another_cpu, "avx4096"),
    "another architecture": (for_another_architecture, "recompile"),
    "a GPU that is not here": (for_another_gpu, "has code for cuda"),
    "weights cut short": (lambda f: os.truncate(f / "params.irpa", 1000), "params.irpa"),
    "weights past their end": (with_offset_past_the_end, "cannot load"),
    "no weights": (lambda f: (f / "params.irpa").unlink(), "params.irpa"),
    "no module": (lambda f: (f / "module.vmfb").unlink(), "module.vmfb"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "manifest.json"),
    "manifest cut short": (lambda f: os.truncate(f / "manifest.json", 100), "JSON"),
    "manifest without fields": (lambda f: (f / "manifest.json").write_text("{}"), "missing"),
    "another schema": (lambda f: edit(f / "manifest.json", schema=99), "99"),
}


@pytest.mark.parametrize("name", BAD_BUNDLES)
def test_bad_bundle(refusal, tiny_bundle, tmp_path, name):
    spoil, about = BAD_BUNDLES[name]
    folder = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, folder)
    spoil(folder)
    assert about in refusal("run", folder, "--prompt", "x")


@pytest.mark.parametrize("name", ["module.vmfb", "params.irpa", "tokenizer.json"])
def test_zeros_in_a_bundle(refusal, tiny_bundle, tmp_path, name):
    folder = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, folder)
    path = folder / name
    path.write_bytes(bytes(path.stat().st_size))
    assert name in refusal("inspect", folder, "--verify")
    assert name in refusal("compile", folder, "-o", tmp_path / "copy")
    assert "bundle" in refusal("run", folder, "--prompt", "x")
    assert list(tmp_path.iterdir()) == [folder]


def test_bundle_without_chat_template(refusal, tiny_bundle, tmp_path):
    folder = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, folder)
    tokenizer = json.loads((folder / "manifest.json").read_text())["tokenizer"]
    edit(folder / "manifest.json", tokenizer={**tokenizer, "chat_template": None})
    assert "template" in refusal("chat", folder)


def test_nowhere_to_keep_a_cache(refusal, tiny_folder, monkeypatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("LLMC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert "LLMC_CACHE" in refusal("run", tiny_folder, "--prompt", "x")


def test_unusable_cache(refusal, tiny_folder, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "file"))
    assert str(tmp_path / "file") in refusal("run", tiny_folder, "--prompt", "x")


@pytest.mark.parametrize("words", [("run", "--prompt", "x"), ("compile",), ("tune",), ("bench",)])
def test_base_install(refusal, tiny_folder, monkeypatch, words):
    for package in ("filelock", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    for importer in ("cache", "huggingface", "tuning"):
        monkeypatch.delitem(sys.modules, f"llmc.frontend.{importer}", raising=False)
    monkeypatch.setattr("llmc.frontend.toolchain._PACKAGES", ("llmc-absent",))
    command, *options = words
    assert "llmc-compiler[compile]" in refusal(command, tiny_folder, *options)
    assert "llmc-compiler[compile]" in refusal("compile", tiny_folder, "-o", "/tmp/absent/out")
    assert not Path("/tmp/absent").exists()


@pytest.mark.parametrize(
    ("words", "importer"),
    [
        (("reduce", "x.mlir", "--test", "true"), "llmc.pipelines.reduction.reduce"),
        (("comm", "x.mlir"), "llmc.frontend.bench.matmul_schedules"),
    ],
)
def test_base_install_has_no_mlir(refusal, monkeypatch, words, importer):
    monkeypatch.setitem(sys.modules, "torch_mlir", None)
    monkeypatch.delitem(sys.modules, importer, raising=False)
    assert "torch_mlir: pip install 'llmc-compiler[compile]'" in refusal(*words)


def refused(script: str) -> str:
    """The line that the shell command writes on standard error."""
    # As users have it: output that Python could not write is written again when it ends.
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONUNBUFFERED"}
    result = subprocess.run(["bash", "-c", script], capture_output=True, env=environment)
    assert result.returncode == 2
    return only_line(result.stderr.decode())


def test_installed_command(tiny_bundle):
    assert "zork" in refused(f"{LLMC} run /zork --prompt x")
    assert "UTF-8" in refused(f"{LLMC} run {tiny_bundle} --prompt $'\\xff'")
    assert "UTF-8" in refused(f"printf '\\xff' | {LLMC} run {tiny_bundle} --prompt -")
    assert "standard input" in refused(f"{LLMC} run {tiny_bundle} --prompt - <&-")


def test_output_that_takes_nothing(tiny_bundle):
    assert "No space" in refused(f"{LLMC} run {tiny_bundle} --prompt x > /dev/full")
    assert "No space" in refused(f"{LLMC} devices --no-measure > /dev/full")
    assert "No space" in refused(f"{LLMC} tune --list --json > /dev/full")
    assert "No space" in refused(f"{LLMC} --help > /dev/full")
    assert "closed" in refused(f"{LLMC} run {tiny_bundle} --prompt x >&-")


def test_errors_that_nobody_takes():
    for output in ("&-", "/dev/full"):
        command = ["bash", "-c", f"{LLMC} run /zork --prompt x 2>{output}"]
        result = subprocess.run(command, capture_output=True)
        assert (result.returncode, result.stdout) == (2, b"")


def test_full_disk(tiny_bundle, tmp_path):
    limit = "ulimit -f 300"  # kilobytes: less than the weights
    assert "too large" in refused(f"{limit}; {LLMC} compile {tiny_bundle} -o {tmp_path}/out")
    assert not list(tmp_path.iterdir())


def test_full_disk_under_the_archive(tmp_path):
    path = tmp_path / "params.irpa"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=str(path)):
        write_archive([], {}, path)
