"""What is wrong with a user's schedule is said in one line that names the file and the line."""

import re
import sys
from pathlib import Path

import pytest
from torch_mlir import ir

from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.schedules.registry import parse_schedule
from llmc.pipelines.schedules.user_schedule import load_schedule
from llmc.runtime.errors import UserError
from tests.scheduled import new_context

_FILE = """\
from dataclasses import dataclass
from typing import Annotated
from llmc.pipelines.option_text import OneOf
from llmc.pipelines.schedules.handles import Handle, match
from llmc.pipelines.schedules.matmul import MatmulParameters
from llmc.pipelines.schedules.verbs import distribute, tile

NUMBER = 1


@dataclass(frozen=True)
class Sizes:
    rows: int = 4

    def __post_init__(self) -> None:
        if self.rows % 4:
            raise ValueError("rows must be a multiple of 4")


@dataclass(frozen=True)
class Lists:
    rows: list[int] = ()


def plain(payload: Handle) -> None:
    match(payload, "mn")


def sized(payload: Handle, sizes: Sizes) -> None:
    tile(match(payload, "mn"), m=sizes.rows)


def unannotated(payload, sizes):
    pass


def by_name(payload: Handle, *, sizes: Sizes) -> None:
    pass


def listed(payload: Handle, sizes: Lists) -> None:
    pass


def leaving(payload: Handle) -> None:
    raise SystemExit(0)


def failing(payload: Handle) -> None:
    raise KeyError("a key")


def misnamed(payload: Handle) -> None:
    tile(match(payload, "mn"), k=2)


def backwards(payload: Handle) -> None:
    tile(match(payload, "mn"), m=-4)


def halved(payload: Handle) -> None:
    tile(match(payload, "mn"), m=2.5)


def twice(payload: Handle) -> None:
    match(payload, "mm")


def other(payload: Handle) -> None:
    match(payload, "mn", reduced="k")


async def waiting(payload: Handle) -> None:
    tile(match(payload, "mn"), m=4)


def yielding(payload: Handle):
    yield tile(match(payload, "mn"), m=4)


def everywhere(payload: Handle) -> None:
    distribute(match(payload, "mn"), m=0)


@dataclass(frozen=True)
class Noted:
    rows: Annotated[int, "of them"] = 4
    kind: Annotated[str, OneOf(("a", "b"))] = "a"


def noted(payload: Handle, notes: Noted) -> None:
    tile(match(payload, "mn"), m=notes.rows)


def refused(payload: Handle) -> None:
    MatmulParameters(rows=0)


def preset(payload: Handle, sizes: Sizes = Sizes(rows=16)) -> None:
    tile(match(payload, "mn"), m=sizes.rows)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(_FILE)
    return path


def _script(text: str) -> str:
    with new_context(), ir.Location.unknown():
        return str(load_schedule(text).script())


def test_a_function_writes_a_script(mine):
    assert "iterator_types" in _script(f"{mine}:plain")
    assert "tile_sizes [4, 0]" in _script(f"{mine}:sized")
    assert "tile_sizes [3, 0]" in _script(f"{mine}:noted{{rows=3}}")
    assert "tile_sizes [8, 0]" in _script(f"{mine}:sized{{rows=8}}")
    assert "tile_sizes [16, 0]" in _script(f"{mine}:preset")
    assert "tile_sizes [8, 0]" in _script(f"{mine}:preset{{rows=8}}")


def test_files_import_their_own_neighbours(tmp_path):
    paths = [tmp_path / name / "importing.py" for name in ("one", "other")]
    for path, rows in zip(paths, (4, 8), strict=True):
        path.parent.mkdir()
        (path.parent / "sizes_of_mine.py").write_text(f"ROWS = {rows}\n")
        path.write_text(f"from sizes_of_mine import ROWS\n{_FILE}".replace("m=-4", "m=ROWS"))
    before = list(sys.path)
    one, other = (_script(f"{path}:backwards") for path in paths)
    assert "tile_sizes [4, 0]" in one
    assert "tile_sizes [8, 0]" in other
    assert sys.path == before


def test_modules_that_are_no_neighbours_stay(tmp_path, monkeypatch):
    """As those of a virtual environment that lies in the same folder."""
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "installed_module.py").touch()
    (tmp_path / "a_package").mkdir()
    for name in ("__init__", "part"):
        (tmp_path / "a_package" / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "environment")
    path = tmp_path / "importing.py"
    path.write_text(f"import installed_module\nimport a_package.part\n{_FILE}")
    _script(f"{path}:plain")
    assert "installed_module" in sys.modules
    assert not {"a_package", "a_package.part"} & sys.modules.keys()


def test_what_is_wrong_in_a_neighbour_is_said_of_it(tmp_path):
    (tmp_path / "neighbour.py").write_text("X = 1\nY = {}[X]\n")
    path = tmp_path / "importing.py"
    path.write_text("import neighbour\n")
    with pytest.raises(UserError, match=re.escape(f"{tmp_path / 'neighbour.py'}:2: KeyError: 1")):
        _script(f"{path}:absent")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{path}", "FILE.py:FUNCTION or FILE.mlir, not '{path}'"),
        ("{path}:absent", "{path} has no function 'absent'"),
        ("{path}:NUMBER", "'NUMBER' of {path} is not a function"),
        ("{path}:unannotated", "{path}:unannotated must take a payload and perhaps a dataclass"),
        ("{path}:plain{rows=4}", "{path}:plain takes no options, but was given 'rows=4'"),
        ("{path}:sized{columns=4}", "schedule 'sized' has no option 'columns'"),
        ("{path}:sized{rows=x}", "option 'rows' of schedule 'sized' must be of type int"),
        ("{path}:sized{rows=3}", "schedule 'sized': rows must be a multiple of 4"),
        ("{path}:by_name", "{path}:by_name must take a payload and perhaps a dataclass"),
        ("{path}:listed{rows=1,2}", "option 'rows' of schedule 'listed' has no type that is read"),
        ("{path}:leaving", "{path}:46: SystemExit: 0"),
        ("{path}:failing", "{path}:50: KeyError: 'a key'"),
        ("{path}:misnamed", "{path}:54: ValueError: sizes are given for the loops 'k'"),
        (
            "{path}:backwards",
            "{path}:58: ValueError: the size for loop 'm' must be a number from 0",
        ),
        ("{path}:halved", "{path}:62: ValueError: the size for loop 'm' must be a number from 0"),
        ("{path}:twice", "{path}:66: ValueError: the loops 'mm' have 'm' twice"),
        ("{path}:other", "{path}:70: ValueError: 'k' is reduced, but is none of the loops 'mn'"),
        ("{path}:waiting", "'waiting' of {path} must be a plain function"),
        ("{path}:yielding", "'yielding' of {path} must be a plain function"),
        ("{path}:everywhere", "{path}:82: ValueError: a grid needs the size of a loop"),
        ("{path}:noted{kind=z}", "option 'kind' of schedule 'noted' must be one of a, b, not 'z'"),
        ("{path}.absent.py:plain", "cannot read {path}.absent.py: No such file"),
        ("{path}.absent.mlir", "cannot read {path}.absent.mlir: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(mine, text, message):
    expected = re.escape(message.replace("{path}", str(mine)))
    with pytest.raises(UserError, match=f"^[^\n]*{expected}[^\n]*$"):
        _script(text.replace("{path}", str(mine)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f(:\n", r"mine\.py:1: invalid syntax"),
        ("x = 1\ny = 1 // 0\n", r"mine\.py:2: ZeroDivisionError: "),
        ("import llmc.absent\n", r"mine\.py:1: ModuleNotFoundError: "),
    ],
)
def test_a_file_that_cannot_be_run(mine, content, message):
    mine.write_text(content)
    with pytest.raises(UserError, match=message):
        _script(f"{mine}:f")


def test_the_line_is_told_of_a_relative_path_too(mine, monkeypatch):
    monkeypatch.chdir(mine.parent)
    with pytest.raises(UserError, match=r"^mine\.py:50: KeyError: 'a key'$"):
        _script("mine.py:failing")
    # What Python writes for dataclasses is in no file.
    with pytest.raises(UserError, match=r"^mine\.py:96: ValueError: rows must be from 1"):
        _script("mine.py:refused")


def test_an_annotation_that_fails(mine):
    late = "from __future__ import annotations\n"
    mine.write_text(f"{late}import typing\ndef f(payload: typing.Handle): pass\n")
    with pytest.raises(UserError, match=r"mine\.py:f: an annotation is unknown: module 'typing'"):
        _script(f"{mine}:f")


def test_types_may_be_written_as_text(mine):
    mine.write_text("from __future__ import annotations\n" + _FILE)
    assert "tile_sizes [8, 0]" in _script(f"{mine}:sized{{rows=8}}")
    with pytest.raises(UserError, match="must be of type int, not 'x'"):
        _script(f"{mine}:sized{{rows=x}}")


@pytest.mark.parametrize(
    "content",
    [
        "module {}",
        "module attributes {transform.with_named_sequence} {}",
        "module {} module {}",
        "func.func @__transform_main() { return }",
    ],
)
def test_a_library_without_a_beginning(tmp_path, content):
    path = tmp_path / "library.mlir"
    path.write_text(content)
    with pytest.raises(UserError, match=r"has no transform\.named_sequence @__transform_main"):
        _script(str(path))


def test_a_library_that_is_no_mlir(tmp_path):
    path = tmp_path / "library.mlir"
    path.write_text("module {\n  what?\n}\n")
    with pytest.raises(ir.MLIRError, match=r"library\.mlir.*:2:3"):
        _script(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("matmull", "there is no schedule 'matmull': there are attention, byte_attention, "),
        ("matmul{rows=0}", "schedule 'matmul': rows must be from 1 to 1024, not 0"),
        ("matmul{rows=2000}", "schedule 'matmul': rows must be from 1 to 1024, not 2000"),
        (
            "quantized_matvec{ahead=1025}",
            "option 'ahead' of schedule 'quantized_matvec' must be from 0 to 1024, not 1025",
        ),
        ("matmul{tiles=1}", "schedule 'matmul' has no option 'tiles'"),
        ("matmul{rows=2", "a schedule is NAME or NAME{OPTIONS}, not"),
        ("matmul(rows=2)", "a schedule is NAME or NAME{OPTIONS}"),
        ("", "a schedule is NAME or NAME{OPTIONS}, not ''"),
    ],
)
def test_a_name_or_an_option_of_ours_that_there_is_not(text, message):
    with pytest.raises(UserError, match=re.escape(message)):
        parse_schedule(text)


def test_commas_and_spaces_separate_options():
    assert parse_schedule("matvec_q4{rows=16,unroll=2}") == parse_schedule(
        "matvec_q4{rows=16 unroll=2}"
    )


def test_a_pass_takes_one_schedule():
    with pytest.raises(ValueError, match="not both"):
        ApplySchedule(schedule="matmul", file="mine.py:f")
    with pytest.raises(UserError, match="no schedule"):
        ApplySchedule(schedule="absent")
