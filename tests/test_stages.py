"""The stages of a compilation in the open: dumped, replayed, stopped after and taken up again."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import iree.compiler
import pytest
from torch_mlir import ir
from transformers import LlamaConfig, Phi3Config

import llmc.runtime
from llmc import dialects
from llmc.frontend.stage_file import check_fits, read_stage
from llmc.pipelines.iree import OPTIONS
from llmc.pipelines.pipeline import STAGE_NAMES
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.walks import find
from llmc.runtime import abi
from llmc.runtime.errors import UserError
from llmc.tools import llmc_opt
from llmc.tools.llmc import main
from tests.tiny_models import tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")


@pytest.fixture(scope="module")
def dumps(tiny_folder, tmp_path_factory) -> list[Path]:
    """The files that a compilation of the tiny model writes, in order."""
    return dump(tiny_folder, tmp_path_factory.mktemp("stages"), f"--stop-after={STAGE_NAMES[-1]}")


def dump(model: Path, folder: Path, *options: str) -> list[Path]:
    """What `--dump-ir` writes, in order."""
    words = ["compile", model, "-o", folder / "out", "--dump-ir", folder / "ir", *options]
    assert main([str(word) for word in words]) == 0
    return sorted((folder / "ir").iterdir())


def test_there_is_a_numbered_file_for_each_stage(dumps):
    expected = [f"{number:02}-{name}.mlir" for number, name in enumerate(STAGE_NAMES)]
    assert [path.name for path in dumps] == expected


def test_each_stage_can_be_replayed_from_the_dump_before_it(dumps, tmp_path):
    replay(dumps, tmp_path)


def test_so_can_those_of_quantised_weights(tiny_folder, tmp_path):
    replay(dump(tiny_folder, tmp_path, "--dtype=q4_1", "--stop-after=iree"), tmp_path, "q4_1")


def replay(dumps: list[Path], folder: Path, storage: str = "f32") -> None:
    """Runs each stage on what the one before has left, and compares what comes out."""
    options = {"state": f"=storage={storage}", "weights": f"=storage={storage}"}
    for (before, after), name in zip(pairwise(dumps), STAGE_NAMES[1:], strict=True):
        output = folder / after.name
        pipeline = f"--llmc-{name}{options.get(name, '')}"
        assert llmc_opt.main([str(before), pipeline, "--mlir-print-debuginfo", f"-o={output}"]) == 0
        assert output.read_text() == after.read_text()


def test_the_named_pipeline_to_iree_is_all_stages_after_the_import(dumps, tmp_path):
    output = tmp_path / "iree.mlir"
    words = [str(dumps[1]), "--llmc-to-iree=target=cpu storage=f32", "--mlir-print-debuginfo"]
    assert llmc_opt.main([*words, "-o", str(output)]) == 0
    assert output.read_text() == dumps[-1].read_text()


def test_the_last_stage_feeds_iree(dumps):
    flags = [*CPUTarget().flags, *OPTIONS]
    assert iree.compiler.compile_file(str(dumps[-1]), extra_args=flags)


def test_diagnostics_lead_back_to_the_lines_of_the_model(dumps, tmp_path, capfd):
    for dump in dumps[:3]:
        text, count = re.subn(r"epsilon = [0-9.E-]+", "epsilon = -1.0", dump.read_text(), count=1)
        assert count == 1
        broken = tmp_path / dump.name
        broken.write_text(text)
        assert llmc_opt.main([str(broken)]) == 1
        place, line, *_ = capfd.readouterr().err.splitlines()
        assert re.search(r"modeling_llama.py:\d+:\d+: error: 'llmc.rms_norm' op", place)
        assert "norm" in line  # the line of PyTorch that the operation came from


def test_arguments_weights_and_caches_come_from_the_lines_of_the_model(dumps):
    context = ir.Context()
    context.allow_unregistered_dialects = True  # of what is IREE's
    dialects.load(context)
    for dump in dumps[:-1]:
        module = ir.Module.parse(dump.read_text(), context)
        functions = [op for op in module.body if op.operation.name == "func.func"]
        places = [
            argument.location
            for function in functions
            if function.sym_name.value not in (abi.RESET, abi.TOP_K)
            for argument in function.arguments
        ]
        declared = find(module.operation, "llmc.parameter", "ml_program.global")
        places += [op.location for op in declared]
        assert places
        for place in places:
            assert re.match(
                r'loc\((callsite\()?"[^"]*/(modeling_llama|activations).py"', str(place)
            )


@pytest.mark.parametrize("stage", ["torch", "state", STAGE_NAMES[-1]])
def test_stop_after_gives_the_dump_of_the_stage(stage, dumps, tiny_folder, tmp_path, capfd):
    dump = dumps[STAGE_NAMES.index(stage)]
    assert main(["compile", str(tiny_folder), "--stop-after", stage]) == 0
    assert capfd.readouterr().out == dump.read_text()
    output = tmp_path / "ir.mlir"
    words = ["compile", str(tiny_folder), "--stop-after", stage, "--start-from", str(dumps[0])]
    assert main([*words, "-o", str(output)]) == 0
    assert output.read_text() == dump.read_text()


@pytest.mark.parametrize(
    "stage", [pytest.param("weights", marks=pytest.mark.thorough), STAGE_NAMES[-1]]
)
def test_a_bundle_from_a_dump_says_the_same(stage, dumps, tiny_folder, tiny_bundle, tmp_path):
    dump = shutil.copy(dumps[STAGE_NAMES.index(stage)], tmp_path / f"{stage}.edited.mlir")
    words = ["compile", tiny_folder, "--start-from", dump, "-o", tmp_path / "bundle"]
    assert main([str(word) for word in words]) == 0
    texts = [
        llmc.runtime.load(folder).generate("Hello", max_new_tokens=20).text
        for folder in (tmp_path / "bundle", tiny_bundle)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("stage", STAGE_NAMES)
def test_a_stage_of_another_model_is_refused(stage, dumps):
    path = dumps[STAGE_NAMES.index(stage)]
    _, module = read_stage(path)
    right = {**tiny_config("llama").to_dict(), "max_position_embeddings": 32768}
    check_fits(module, path, tiny_model(LlamaConfig(**right)), "f32")
    for options, family, says in [
        ({"num_hidden_layers": 3}, LlamaConfig, "it has 2 layers, the model 3"),
        ({"num_hidden_layers": 1}, LlamaConfig, "it has 2 layers, the model 1"),
        ({"hidden_size": 32}, LlamaConfig, "it has a width of 64, the model 32"),
        ({"vocab_size": 310}, LlamaConfig, "it has a vocabulary of 320, the model 310"),
        ({"model_type": "phi3", "pad_token_id": 0}, Phi3Config, "weights that the model has not"),
    ]:
        with pytest.raises(UserError, match=f"{path.name} does not fit: .*{says}"):
            check_fits(module, path, tiny_model(family(**{**right, **options})), "f32")


@pytest.mark.parametrize("stage", ["weights", STAGE_NAMES[-1]])
def test_a_stage_of_another_element_type_is_refused(stage, dumps, tiny_folder, capfd):
    dump = dumps[STAGE_NAMES.index(stage)]
    words = ["compile", tiny_folder, "--dtype", "f16", "--stop-after", "iree", "--start-from", dump]
    assert main([str(word) for word in words]) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.endswith(f"{dump.name} does not fit: its matrices are stored in f32, not in f16")


def test_what_iree_refuses_is_told_in_a_line_below_its_diagnostics(
    dumps, tiny_folder, tmp_path, capfd
):
    calls_nobody = "func.func private @nobody()\nfunc.func @f() {\n  call @nobody() : () -> ()\n"
    dump, text = tmp_path / "iree.mlir", dumps[STAGE_NAMES.index("iree")].read_text()
    end = text.rindex("\n}") + 1
    dump.write_text(f"{text[:end]}{calls_nobody}  return\n}}\n{text[end:]}")
    words = ["compile", tiny_folder, "--start-from", dump, "-o", tmp_path / "bundle"]
    assert main([str(word) for word in words]) == 1
    *diagnostics, last = capfd.readouterr().err.splitlines()
    assert "@nobody" in last
    assert last.startswith("llmc: error: IREE cannot compile")
    assert any("@nobody" in line for line in diagnostics)
    assert not (tmp_path / "bundle").exists()


def test_a_pass_that_an_edited_stage_stops_is_told_of(dumps, tiny_folder, tmp_path, capfd):
    edited = tmp_path / "state.mlir"
    text = dumps[2].read_text()
    for name in ("sources", "llmc.stored"):  # of one layer in the place of two
        text = re.sub(rf'({name} = \["[^"]*"), "[^"]*"\]', r"\1]", text, count=1)
    edited.write_text(text)
    assert main(["compile", str(tiny_folder), "--start-from", str(edited), "-o", "x"]) == 2
    *_, last = capfd.readouterr().err.splitlines()
    assert last.startswith("llmc: error: the stage ")
    assert "2 needed" in last


def test_what_is_wrong_with_a_stage_is_said_in_one_line(dumps, tiny_folder, tmp_path, capfd):
    broken, strange = tmp_path / "state.mlir", tmp_path / "mine.mlir"
    broken.write_text("func.func @f(")
    strange.write_text("")
    compile_ = ["compile", str(tiny_folder)]
    for words, says in [
        (["--stop-after", "vectors"], "there is no stage 'vectors'"),
        (["--start-from", str(dumps[0])], "--start-from needs -o"),
        (["--start-from", str(strange), "-o", "x"], "must be called STAGE.mlir"),
        (["--start-from", str(broken), "-o", "x"], "state.mlir"),
        (["--start-from", str(tmp_path / "iree.mlir"), "-o", "x"], "No such file"),
        (["--start-from", str(dumps[2]), "--stop-after", "import"], "is after stage state"),
    ]:
        assert main([*compile_, *words]) == 2
        error = capfd.readouterr().err
        assert says in error
        assert error.count("\n") == 1
