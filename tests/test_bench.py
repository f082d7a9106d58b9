"""`llmc bench`: who runs when, what is made of the times, and what its contenders compute."""

import json
import os
import shutil
import signal
import sys
import sysconfig
from itertools import pairwise

import numpy as np
import pytest
import torch

from llmc.frontend.bench.bench import Field
from llmc.frontend.bench.contender import Case, Contender, MissingError, run
from llmc.frontend.bench.entrants import Entrant, ours, peers
from llmc.frontend.bench.gguf_files import gguf_file
from llmc.frontend.bench.iree_alone import IREEAlone
from llmc.frontend.bench.kernels import profile
from llmc.frontend.bench.measure import Result, measure_in_turns
from llmc.frontend.bench.remote import Facts, Sample, opened
from llmc.frontend.bench.report import sum_up
from llmc.frontend.bench.torch_eager import TorchEager
from llmc.frontend.options import CompileOptions
from llmc.pipelines.errors import IREEError
from llmc.runtime import UserError
from llmc.runtime.manifest import MANIFEST, MODULE, Manifest
from llmc.tools.llmc import main
from tests.processes import is_alive, processes_of, wait_until
from tests.tiny_models import (
    VOCAB_SIZE,
    save_tiny_model,
    save_tiny_tokenizer,
    tiny_config,
    tiny_model,
)

CASE = Case(prompt=4, generated=8)


def sample(prefill_s: float, decode_s: float, tokens: list[int]) -> Sample:
    return Sample(prefill_s, decode_s, tokens, resident_bytes=0)


def test_contenders_take_turns_and_the_first_round_is_left_out():
    order = []

    def contender(name):
        def measure(case, rows):
            order.append(name)
            return sample(len(order), 1.0, [])

        return measure

    turns = {"a": contender("a"), "b": contender("b")}
    read = lambda: order.append("read") or 1.0  # noqa: E731
    (results,) = measure_in_turns(turns, read, [CASE], 2, 100, unexpected)
    assert order == ["read", "a", "b"] * 3
    assert [s.prefill_s for s in results[0].samples] == [5, 8]
    assert [s.prefill_s for s in results[1].samples] == [6, 9]


def unexpected(name, reason):
    raise AssertionError(f"{name} is left out: {reason}")


def test_one_that_fails_while_measured_is_left_out_from_then_on():
    turns = []

    def steady(case, rows):
        turns.append(("a", case.prompt))
        return sample(1.0, 1.0, [])

    def failing(case, rows):
        turns.append(("b", case.prompt))
        if turns.count(("b", 8)) == 2:
            raise UserError("out of memory")
        return sample(1.0, 1.0, [])

    told = []
    contenders = {"a": steady, "b": failing}
    cases = [Case(prompt, 1) for prompt in (4, 8, 12)]
    results = measure_in_turns(
        contenders, lambda: 1.0, cases, 2, 50, lambda name, reason: told.append((name, str(reason)))
    )
    assert [[one.contender for one in case] for case in results] == [["a", "b"], ["a"], ["a"]]
    assert told == [("b", "out of memory")]
    assert [turn for turn in turns if turn[0] == "b"] == [("b", 4)] * 3 + [("b", 8)] * 2


def test_nothing_goes_on_without_ours():
    told = []
    entrants = Field(told.append)
    entrants.leave_out("torch", UserError("its process was ended by SIGKILL"))
    assert entrants.missing == {"torch": "its process was ended by SIGKILL"}
    assert len(told) == 1
    with pytest.raises(UserError, match="SIGILL"):
        entrants.leave_out("llmc", UserError("its process was ended by SIGILL"))


def test_all_contenders_get_the_same_tokens_in_every_round():
    seen = []

    def measure(case, rows):
        seen.append(rows)
        return sample(1.0, 1.0, [])

    case = Case(prompt=3, generated=1, batch=2, held=7)
    list(measure_in_turns({"a": measure, "b": measure}, lambda: 1.0, [case], 1, 50, unexpected))
    assert all(one == other for one, other in pairwise(seen))
    assert np.shape(seen[0]) == (2, 7)
    assert 0 <= np.min(seen[0]) <= np.max(seen[0]) < 50


def test_ratios_are_of_the_same_round():
    """A machine that is slow in one round moves both, and no ratio."""
    ours_ = Result("llmc", CASE, [sample(t, 2 * t, [1, 2, 3]) for t in (1, 9, 2)], [10.0] * 3)
    theirs = Result("peer", CASE, [sample(2 * t, t, [1, 2, 4]) for t in (1, 9, 2)], [10.0] * 3)
    facts = {"llmc": Facts("1", "f32", 100, 0.0), "peer": Facts("1", "f32", 10, 0.0)}
    first, second = sum_up([ours_, theirs], facts)
    assert (first.prefill_ratio, first.decode_ratio) == (1.0, 1.0)
    assert (second.prefill_ratio, second.decode_ratio) == (2.0, 0.5)
    assert first.prefill_tokens_per_s == 4 / 2  # the median of 4/1, 4/9 and 4/2
    assert second.decode_tokens_per_s == 8 / 2
    assert second.tokens_alike == 2
    # 10 bytes for each of the 4 tokens a second, of 10 bytes a second.
    assert second.bandwidth_share == pytest.approx(4.0)


def test_a_batch_counts_all_tokens_and_reads_the_weights_once():
    case = Case(prompt=4, generated=8, batch=2)
    result = Result("llmc", case, [sample(1.0, 1.0, [])], [160.0])
    (row,) = sum_up([result], {"llmc": Facts("1", "f32", 10, 0.0)})
    assert (row.prefill_tokens_per_s, row.decode_tokens_per_s) == (8.0, 16.0)
    assert row.bandwidth_share == pytest.approx(0.5)


class Counting(Contender):
    """Continues with the number of tokens that it has been given."""

    def clear(self, sequences, capacity):
        self.held = [0] * sequences
        self.capacity = capacity

    def prefill(self, rows, past):
        assert self.held == [past] * len(rows)
        self.held = [past + len(row) for row in rows]
        return list(self.held)

    def decode(self, tokens, past):
        assert tokens == self.held == [past] * len(tokens)
        return self.prefill([[token] for token in tokens], past)


def test_decoding_goes_on_from_the_prompt_or_what_is_held():
    for case in (Case(4, 3), Case(4, 3, batch=2, held=6), Case(4, 3, held=2)):
        contender = Counting()
        measured = run(contender, case, [[0] * case.cached] * case.batch)
        assert measured.tokens == list(range(case.cached, case.cached + 3))
        assert contender.held == [contender.capacity] * case.batch


def test_llama_cpp_runs_the_same_type_and_its_fastest():
    def names(dtype, storage):
        options = CompileOptions(dtype=dtype)
        return [entrant.name for entrant in peers(["llama.cpp"], "m", options, storage, 1)]

    assert names("as-is", "Q4_1") == names("q4_0", "Q8_0") == ["llama.cpp Q4_0", "llama.cpp Q4_1"]
    assert names("int4_g128", "F16") == names("as-is", "INT4_G64") == names("q4_0", "F16")
    assert names("f16", "Q4_1") == names("as-is", "float16") == ["llama.cpp F16", "llama.cpp Q4_0"]
    assert names("as-is", "Q4_K") == ["llama.cpp Q4_K", "llama.cpp Q4_0"]


@pytest.mark.parametrize("kind", ["torch", pytest.param("iree", marks=pytest.mark.thorough)])
def test_ours_and_a_peer_go_on_alike(kind, tiny_folder, tiny_bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path))
    case = Case(prompt=5, generated=6, batch=2, held=9)
    options = CompileOptions(target="vulkan:baseline,cpu")
    (peer,) = peers([kind], str(tiny_folder), options, "float32", 1)
    rows = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2, 9)).tolist()
    with opened(ours(tiny_bundle, 1)) as one, opened(peer) as other:
        assert one.measure(case, rows).tokens == other.measure(case, rows).tokens
        # PyTorch's parameters are what the archive holds, but for the rotary frequencies.
        assert one.facts.weight_bytes == pytest.approx(other.facts.weight_bytes, rel=1e-3)


def test_iree_alone_runs_a_vocabulary_of_a_usual_size(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    config = tiny_config("llama")
    config.vocab_size = 4096
    model, tokens = tiny_model(config), [5, 4000, 77]
    model.save_pretrained(tmp_path / "model")
    save_tiny_tokenizer(tmp_path / "model")
    alone = IREEAlone(str(tmp_path / "model"), {"context": 64}, 1)
    alone.clear(1, 16)
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0, -2:].argmax(-1).tolist()
    found = [*alone.prefill([tokens[:2]], 0), *alone.decode(tokens[2:], 2)]
    assert found == expected


def test_a_crash_of_iree_is_told_in_one_line():
    error = IREEError(
        "Error invoking iree-compile\nError code: -11\nDiagnostics:\n#0 0x7f\n#1 0x7e\n"
    )
    assert error.first.endswith("SIGSEGV")


def test_pytorch_has_the_attention_that_its_model_takes(tmp_path):
    """No `sdpa` where the model refuses that."""
    save_tiny_model("gemma2", tmp_path)
    with torch.no_grad():  # which a contender, a process of its own, turns off for good
        contender = TorchEager(str(tmp_path), {}, 1)
        contender.clear(1, 3)
        assert len(contender.prefill([[1, 2]], 0)) == 1


def test_ours_is_the_code_for_the_cpu(tiny_bundle, tmp_path):
    """Wherever in a bundle of several targets it is."""
    folder = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["module.cpu.vmfb"] = manifest["files"][MODULE]
    (folder / MODULE).rename(folder / "module.cpu.vmfb")
    (code,) = manifest["modules"]
    gpu = {**code, "target": {**code["target"], "device": "vulkan", "arch": "rdna3"}}
    manifest["modules"] = [gpu, {**code, "module": "module.cpu.vmfb"}]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with opened(ours(folder, 1)) as one:
        assert one.measure(Case(prompt=2, generated=1), [[1, 2]]).tokens


def test_a_bundle_of_several_ranks_is_refused(ranked_bundle):
    with pytest.raises(UserError, match="2 ranks"):
        ours(ranked_bundle, 1)


def test_a_contender_that_cannot_run_says_why(tmp_path):
    missing = Entrant("x", "torch", {"model": str(tmp_path / "none"), "options": {}, "threads": 1})
    with pytest.raises(MissingError, match="there is no model"), opened(missing):
        pass


def test_one_that_dies_between_its_turns_ends_nobody_else(tiny_bundle):
    others = set(processes_of(os.getpid()))
    with opened(ours(tiny_bundle, 1)) as one:
        (process,) = {*processes_of(os.getpid())} - others
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not is_alive(process))
        with pytest.raises(UserError, match="SIGKILL"):
            one.measure(Case(prompt=2, generated=1), [[1, 2]])


@pytest.mark.parametrize("name", ["m.gguf", "M.GGUF", "sha256-0f"])
def test_any_file_is_a_gguf_of_its_own(name, tmp_path):
    path = tmp_path / name
    path.touch()
    assert gguf_file(str(path), "Q4_0", "Q4_0", None) == path


def test_kernels_are_found_with_their_weights(tiny_bundle):
    (code,) = Manifest.read(tiny_bundle).modules
    for function, tokens in (("decode", 1), ("greedy", 1), ("prefill", 8)):
        kernels = profile(tiny_bundle, function, tokens, 3, 1)
        assert sum(kernel.dispatches for kernel in kernels) == code.dispatches[function]
        assert all(kernel.seconds > 0 for kernel in kernels)
        named = {name for kernel in kernels for name in kernel.weights}
        assert {"lm_head.weight", "model.layers.0.mlp.down_proj.weight"} <= named
        (cached,) = {kernel.cache_bytes for kernel in kernels} - {0}
        assert cached == code.kv_bytes_per_token * (3 + tokens)


def test_tools_that_are_missing_are_told(tiny_bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UserError, match="iree-run-module"):
        profile(tiny_bundle, "decode", 1, 3, 1)


def test_a_plot_that_cannot_be_drawn_is_told_first(tiny_bundle, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", str(tiny_bundle), "--plot", "x.png", "--prompt", "40000"]) == 2
    assert "llmc-compiler[bench]" in capsys.readouterr().err


def test_a_plot_is_no_folder(tmp_path, tiny_bundle, capsys):
    pytest.importorskip("matplotlib")
    assert main(["bench", str(tiny_bundle), "--plot", str(tmp_path), "--prompt", "40000"]) == 2
    assert f"{tmp_path} is a folder: name a file in it" in capsys.readouterr().err


def test_json_has_ours_first(tiny_folder, tiny_cache, monkeypatch, capsys):
    monkeypatch.setenv("LLMC_CACHE", str(tiny_cache))
    words = ["--against", "torch", "--prompt", "4,8", "--gen", "2", "--rounds", "1", "--json"]
    words += ["--batch", "1"]
    assert main(["bench", str(tiny_folder), *words, "--threads", "1"]) == 0
    written = json.loads(capsys.readouterr().out)
    rows = written["results"]
    assert [(row["contender"], row["prompt"]) for row in rows] == [
        ("llmc", 4), ("torch", 4), ("llmc", 8), ("torch", 8)
    ]  # fmt: skip
    assert all(row["prefill_tokens_per_s"] > 0 < row["decode_tokens_per_s"] for row in rows)
    assert written["kernels"]
    assert [list(written["contenders"]), written["missing"]] == [["llmc", "torch"], {}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "vllm"], "there is no contender 'vllm'"),
        (["--target", "cuda:sm_80,vulkan:rdna3"], "have --target name one, too\n"),
        (["--target", "vulkan:rdna3, cpu", "--prompt", "40000"], "give a shorter --prompt"),
        (["--prompt", "16,x"], "must be a whole number above 0, not 'x'"),
        (["--prompt", "40000"], "give a shorter --prompt, --held or --gen\n"),
        (["--prompt", "90", "--context", "64"], "or a longer --context\n"),
    ],
)
def test_what_cannot_be_run_is_told(words, said, tiny_folder, tiny_cache, monkeypatch, capsys):
    monkeypatch.setenv("LLMC_CACHE", str(tiny_cache))
    assert main(["bench", str(tiny_folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_bundle_has_no_peers(tiny_bundle, capsys):
    words = ["--against", "torch", "--prompt", "40000"]
    assert main(["bench", str(tiny_bundle), *words]) == 2
    told, refused = capsys.readouterr().err.splitlines()
    assert "give the model it was compiled from" in told
    assert "more than the context" in refused  # what would have been next
