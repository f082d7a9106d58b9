"""The cache of bundles: what it finds again, and what it survives."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from llmc.frontend.cache import CachedBundle, cached_bundle, find_or_build
from llmc.frontend.file_digests import file_digests
from llmc.frontend.options import CompileOptions
from llmc.frontend.output_folder import appearing, remove_abandoned
from llmc.frontend.source import source_files
from llmc.frontend.tuned import database_path
from llmc.pipelines.code_digest import code_digest
from llmc.pipelines.tuning.database import Database, Entry, Key
from llmc.pipelines.tuning.versions import kernel_versions
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import FileFacts, Manifest
from tests.tiny_models import save_tiny_model


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Compiler:
    """Builds by copying a bundle, and counts."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle
        self.runs = 0

    def __call__(self, output: Path) -> None:
        self.runs += 1
        with appearing(output) as folder:
            shutil.copytree(self.bundle, folder, dirs_exist_ok=True)

    def get(self, model: str = "model", toolchain: str = "toolchain", **options) -> CachedBundle:
        return find_or_build(model, toolchain, self, **options)


@pytest.fixture
def compiler(tiny_bundle, cache):
    return Compiler(tiny_bundle)


def test_second_time_is_found(compiler):
    first, second = compiler.get(), compiler.get()
    assert compiler.runs == 1
    assert first.folder == second.folder
    assert first.compile_s > 0
    assert second.compile_s == 0
    Manifest.read(first.folder).verify_hashes(first.folder)


def test_other_models_and_toolchains_are_others(compiler):
    folders = {compiler.get(*key).folder for key in [("a", "x"), ("a", "y"), ("b", "x")]}
    assert len(folders) == compiler.runs == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: os.truncate(folder / "params.irpa", 100),
        lambda folder: (folder / "tokenizer.json").unlink(),
    ],
)
def test_damaged_bundle_is_made_again(compiler, damage):
    folder = compiler.get().folder
    damage(folder)
    assert compiler.get().folder == folder
    assert compiler.runs == 2
    Manifest.read(folder).verify_hashes(folder)


def test_bundle_is_made_anew_when_asked(compiler):
    compiler.get()
    assert compiler.get(anew=True).compile_s > 0


def test_last_used_bundles_of_a_model_are_kept(compiler):
    used, unused, other = (compiler.get(*key).folder for key in ("ax", "ay", "bx"))
    for seconds, folder in enumerate((other, unused, used)):
        os.utime(folder, (seconds, seconds))
    newest = compiler.get("a", "z").folder
    assert [folder.exists() for folder in (used, unused, other, newest)] == [
        True,
        False,
        True,
        True,
    ]


def test_failure_leaves_nothing(cache):
    def build(output: Path) -> None:
        with appearing(output) as folder:
            (folder / "params.irpa").touch()
            raise UserError("no")

    with pytest.raises(UserError):
        find_or_build("model", "toolchain", build)
    assert not list((cache / "bundles").glob("*model-*"))


def start(script: str, *arguments: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


WRITING = """
import sys, time
from pathlib import Path
from llmc.frontend.output_folder import appearing
with appearing(Path(sys.argv[1])) as folder:
    (folder / "params.irpa").touch()
    print(folder, flush=True)
    time.sleep(60)
"""


def test_what_killed_processes_leave_is_removed(compiler, cache):
    processes = [start(WRITING, cache / "bundles" / name) for name in ("dead-x", "alive-x")]
    dead, alive = (Path(process.stdout.readline().strip()) for process in processes)
    try:
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        assert dead.exists()
        compiler.get()
        assert not dead.exists()
        assert alive.exists()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_folders_of_other_users_are_left(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # who may not look into any folder of root's tests
    try:
        remove_abandoned([folder])
    finally:
        os.seteuid(user)
    assert folder.exists()


BUILDING = """
import shutil, sys, time
from pathlib import Path
from llmc.frontend.cache import find_or_build
from llmc.frontend.output_folder import appearing

def build(output):
    print("build", flush=True)
    with appearing(output) as folder:
        time.sleep(0.5)
        shutil.copytree(sys.argv[1], folder, dirs_exist_ok=True)

print(find_or_build("model", "toolchain", build).folder)
"""


def test_processes_wait_for_the_one_that_builds(tiny_bundle, cache):
    processes = [start(BUILDING, tiny_bundle) for _ in range(3)]
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert lines.count("build") == 1
    assert len(set(lines)) == 2


def test_killed_builder_frees_those_that_wait(compiler, tiny_bundle, cache):
    slow = start(BUILDING.replace("0.5", "60"), tiny_bundle)
    assert slow.stdout.readline() == "build\n"
    waiting = start(BUILDING, tiny_bundle)
    slow.kill()
    slow.communicate()
    output = waiting.communicate()[0]
    assert waiting.returncode == 0
    assert output.startswith("build\n")
    assert {path.name for path in (cache / "bundles").glob("*model-*")} == {"model-toolchain"}


LLMC = Path(sys.executable).with_name("llmc")


@pytest.mark.thorough
def test_real_compilations_killed_and_at_once(tiny_folder, cache):
    command = [LLMC, "run", tiny_folder, "--prompt", "x", "--max-new-tokens", "1", "--json"]
    killed = subprocess.Popen(command)
    while not list((cache / "bundles").glob(".*.llmc-*")):
        time.sleep(0.01)
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    seconds = sorted(json.loads(process.communicate()[0])["compile_s"] for process in both)
    assert seconds[0] == 0 < seconds[1]
    assert len(list((cache / "bundles").glob("[!.]*"))) == 1
    assert not list((cache / "bundles").glob(".*.llmc-*"))


@pytest.mark.thorough
def test_disk_that_fills_up_while_compiling(tiny_folder, tmp_path):
    script = f"ulimit -f 420; {LLMC} compile {tiny_folder} -o {tmp_path}/out"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_bundle_depends_on_contents_and_options(tiny_folder, tiny_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tiny_cache))

    class MissError(Exception):
        pass

    def miss(*_arguments, **_options):
        raise MissError

    monkeypatch.setattr("llmc.frontend.cache.build_bundle", miss)
    moved = tmp_path / "moved"
    shutil.copytree(tiny_folder, moved)
    assert cached_bundle(str(moved), CompileOptions()).compile_s == 0
    with pytest.raises(MissError):
        cached_bundle(str(moved), CompileOptions(dtype="f16"))
    entry = Entry(
        Key("matvec", "()", "0", "cpu", kernel_versions()), "best", "default", 1.0, 2.0, 1
    )
    try:
        Database([replace(entry, schedule="default")]).write(database_path())
        assert cached_bundle(str(moved), CompileOptions()).compile_s == 0
        Database([entry]).write(database_path())
        with pytest.raises(MissError):
            cached_bundle(str(moved), CompileOptions())
    finally:
        database_path().unlink()
    assert cached_bundle(str(moved), CompileOptions()).compile_s == 0
    tokenizer = moved / "tokenizer_config.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    with pytest.raises(MissError):
        cached_bundle(str(moved), CompileOptions())


def test_bundle_depends_on_what_the_plan_says(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))

    def build(_name, _options, folder, **_rest):
        shutil.copytree(tiny_folder, folder)

    monkeypatch.setattr("llmc.frontend.cache.build_bundle", build)
    plan = tmp_path / "plan.json"
    folders = set()
    for text in ("{}", "{}", "{ }"):
        plan.write_text(text)
        folders.add(cached_bundle(str(tiny_folder), CompileOptions(plan=str(plan))).folder)
    assert len(folders) == 2
    plan.unlink()
    with pytest.raises(UserError, match=r"plan\.json"):
        cached_bundle(str(tiny_folder), CompileOptions(plan=str(plan)))


def test_key_covers_all_files_of_a_model(tmp_path):
    save_tiny_model("llama", tmp_path, max_shard_size="100KB")
    files = set(tmp_path.iterdir())
    assert len([file for file in files if file.suffix == ".safetensors"]) > 2
    (tmp_path / "README.md").write_text("nothing to do with the result")
    assert set(source_files(tmp_path)) == files


def test_digests(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    expected = [FileFacts.of(path).sha256 for path in (first, second)]
    assert file_digests([first, second], tmp_path / "memory.json") == expected
    assert file_digests([first], Path("/dev/null/none")) == expected[:1]
    with pytest.raises(UserError, match="absent"):
        file_digests([tmp_path / "absent"], tmp_path / "memory.json")


@pytest.mark.parametrize("noise", ["", "[]", "{", '{"PATH": 1}', '{"PATH": [[], 1]}'])
def test_damaged_memory_is_ignored(tmp_path, noise):
    path, memory = tmp_path / "a", tmp_path / "memory.json"
    path.write_bytes(b"one")
    memory.write_text(noise.replace("PATH", str(path)))
    assert file_digests([path], memory) == [FileFacts.of(path).sha256]


def test_digest_is_remembered_while_the_file_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("llmc.frontend.file_digests._SETTLED_NS", 0)
    path, memory = tmp_path / "a", tmp_path / "memory.json"
    path.write_bytes(b"one")
    file_digests([path], memory)
    # What is remembered is told apart from what is read by making it wrong.
    ((name, (identity, _)),) = json.loads(memory.read_text()).items()
    memory.write_text(json.dumps({name: [identity, "remembered"]}))
    assert file_digests([path], memory) == ["remembered"]
    path.write_bytes(b"two")
    os.utime(path, ns=(identity[1], identity[1]))
    assert path.stat().st_mtime_ns == identity[1]
    assert file_digests([path], memory) == [FileFacts.of(path).sha256]


def test_fresh_file_is_not_remembered(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    file_digests([path], tmp_path / "memory.json")
    assert not (tmp_path / "memory.json").exists()


def test_changed_code_is_another_compiler(tmp_path):
    (tmp_path / "passes").mkdir()
    code = tmp_path / "passes" / "a.py"
    code.write_text("x = 1\n")
    digests = [code_digest([tmp_path])]
    (tmp_path / "notes.txt").write_text("no code")
    assert code_digest([tmp_path]) == digests[0]
    code.write_text("x = 2\n")
    digests.append(code_digest([tmp_path]))
    code.rename(tmp_path / "passes" / "b.py")
    digests.append(code_digest([tmp_path]))
    assert len(set(digests)) == 3


def test_output_replaces_a_bundle_only(tiny_bundle, tmp_path):
    bundle, project = tmp_path / "bundle", tmp_path / "project"
    shutil.copytree(tiny_bundle, bundle)
    with appearing(bundle) as folder:
        (folder / "new").touch()
    assert [path.name for path in bundle.iterdir()] == ["new"]
    project.mkdir()
    for name in ("manifest.json", "background.js"):
        (project / name).touch()
    with pytest.raises(UserError, match="other files"), appearing(project):
        pass
    assert len(list(project.iterdir())) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "project"}


def test_interrupted_output_leaves_no_folders(tmp_path):
    (tmp_path / "old").mkdir()
    for output in (tmp_path / "new" / "deep" / "bundle", tmp_path / "old" / "bundle"):
        with pytest.raises(KeyboardInterrupt), appearing(output):
            raise KeyboardInterrupt
    assert list(tmp_path.rglob("*")) == [tmp_path / "old"]
