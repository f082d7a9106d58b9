"""What the tests share: options for those that take long, and one tiny compiled model."""

import gc
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from llmc.runtime.heap import importing

# An example that takes long on a busy machine is not wrong.
settings.register_profile("llmc", deadline=None)
settings.load_profile("llmc")

# PyTorch's threads wait for each other in loops, and so take the CPU from the other test process.
os.environ["OMP_NUM_THREADS"] = "1"

# The files that take longest, which begin first: else one process would wait for the other's last.
_LONG = [
    "readme",
    "families",
    "sharding",
    "quantized_models",
    "greedy",
    "vulkan",
    "properties",
    "iree_programs",
]

_OPTIONS = {
    "thorough": "run the tests that compare much text with PyTorch",
    "all_families": "run the tests of every family of models",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for marker, help_ in _OPTIONS.items():
        parser.addoption(_option(marker), action="store_true", help=help_)


def pytest_configure(config: pytest.Config) -> None:
    for marker in _OPTIONS:
        config.addinivalue_line("markers", f"{marker}: left out unless {_option(marker)} is given")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {marker for marker in _OPTIONS if not config.getoption(_option(marker))}
    kept, deselected = [], []
    for item in items:
        marked = any(item.get_closest_marker(marker) for marker in left_out)
        (deselected if marked else kept).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = sorted(kept, key=_place)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests import PyTorch and the compiler."""
    with importing():
        return (yield)


def pytest_collection_finish() -> None:
    """The garbage collector passes over what is imported: half a million objects by then."""
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def _place(item: pytest.Item) -> int:
    """Where in the run the file of a test belongs."""
    name = item.path.stem.removeprefix("test_")
    return _LONG.index(name) if name in _LONG else len(_LONG)


def _option(marker: str) -> str:
    return "--" + marker.replace("_", "-")


@pytest.fixture(scope="session")
def imported() -> dict[str, str]:
    """The text of each module that PyTorch's export has given, by what it depends on."""
    return {}


@pytest.fixture(scope="module")
def imported_once(imported: dict[str, str]) -> Iterator[None]:
    """Within a file each model is exported once: that is half of the time of a compilation."""
    from torch_mlir import ir

    from llmc.frontend import lowering
    from llmc.frontend.work import module_text
    from tests.programs.stages import new_context

    import_model = lowering.import_model

    def import_once(model, skeleton, context, work) -> ir.Module:
        key = f"{skeleton.config} {skeleton} {context} {model.formats}"
        if key not in imported:
            imported[key] = module_text(import_model(model, skeleton, context, work))
        return ir.Module.parse(imported[key], new_context())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "import_model", import_once)
        yield


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder with a random llama whose context is long."""
    from tests.tiny_models import save_tiny_model

    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_tiny_model("llama", folder)
    config = folder / "config.json"
    values = json.loads(config.read_text())
    config.write_text(json.dumps({**values, "max_position_embeddings": 32768}))
    return folder


@pytest.fixture(scope="session")
def tiny_cache(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds nothing but the bundle of `tiny_folder`, compiled without options."""
    from llmc.frontend.cache import cached_bundle
    from llmc.frontend.options import CompileOptions

    base = tmp_path_factory.getbasetemp()
    # The folder of one of several test processes is in that of them all.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LLMC_CACHE", str(shared))
        cached_bundle(str(tiny_folder), CompileOptions())
    return Path(shutil.copytree(shared, tmp_path_factory.mktemp("cache"), dirs_exist_ok=True))


@pytest.fixture(scope="session")
def tiny_bundle(tiny_cache: Path) -> Path:
    """The bundle of `tiny_folder`. Tests copy it before they change it."""
    (folder,) = (tiny_cache / "bundles").glob("[!.]*")
    return folder


@pytest.fixture(scope="session")
def endless_bundle(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny_bundle` as one of a model that knows no end of a text."""
    folder = tmp_path_factory.mktemp("endless") / "bundle"
    shutil.copytree(tiny_bundle, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["tokenizer"]["eos_token_ids"] = []
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="session")
def ranked_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two ranks."""
    from tests.ranked_bundle import write_ranked_bundle

    folder = tmp_path_factory.mktemp("ranked") / "bundle"
    write_ranked_bundle(folder)
    return folder
