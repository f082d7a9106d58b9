"""Imports go down the list of rooms and of floors only, and the runtime needs little."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("runtime", "dialects", "pipelines", "frontend", "tools")  # from the ground up
RUNTIME_MAY_IMPORT = {"numpy", "iree.runtime", "tokenizers", "jinja2", *sys.stdlib_module_names}
FLOORS = ("targets", "recipes", "kernels", "schedules", "rewriting", "shapes", "passes")  # likewise
ALSO_MAY_IMPORT = {Path("runtime/ranks/mpi.py"): "mpi4py"}


def imported_modules(path: Path, tree: ast.AST) -> Iterator[str]:
    """Full names of what the file `path` imports, anywhere in it."""
    package = ["llmc", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *filter(None, [node.module])])
            if module in ("llmc", "iree"):  # namespaces: what is imported from them are packages
                yield from (f"{module}.{alias.name}" for alias in node.names)
            else:
                yield module


def imports_of(room: str) -> list[tuple[Path, str]]:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    return [
        (path.relative_to(ROOT), module)
        for path in files
        for module in imported_modules(path, ast.parse(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_itself_and_below(room):
    above = ROOMS[ROOMS.index(room) + 1 :]
    upward = [
        f"{path} imports {module}"
        for path, module in imports_of(room)
        if module.startswith("llmc.") and module.split(".")[1] in above
    ]
    assert not upward


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_of_the_pipelines_imports_from_none_above(floor):
    above = tuple(f"llmc.pipelines.{other}" for other in FLOORS[FLOORS.index(floor) + 1 :])
    upward = [
        f"{path} imports {module}"
        for path, module in imports_of(f"pipelines/{floor}")
        if module.startswith(above)
    ]
    assert not upward


def test_the_runtime_imports_little():
    def allowed(module: str) -> bool:
        parts = module.split(".")
        prefixes = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        return bool(prefixes & RUNTIME_MAY_IMPORT) or module.startswith("llmc.runtime")

    others = [
        f"{path} imports {module}"
        for path, module in imports_of("runtime")
        if not allowed(module) and module != ALSO_MAY_IMPORT.get(path)
    ]
    assert not others


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import torch.nn as nn", "torch.nn"),
        ("from llmc.frontend.compile import x", "llmc.frontend.compile"),
        ("from llmc import frontend", "llmc.frontend"),
        ("from . import errors", "llmc.runtime"),
        ("from .errors import UserError", "llmc.runtime.errors"),
        ("from ..frontend import x", "llmc.frontend"),
        ("from iree import compiler", "iree.compiler"),
        ("def f():\n    import torch", "torch"),
    ],
)
def test_imports_are_found(source, module):
    assert list(imported_modules(ROOT / "runtime" / "x.py", ast.parse(source))) == [module]
