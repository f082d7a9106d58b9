"""The archives of a bundle: written beside the compilation of its code."""

import time
from concurrent.futures import CancelledError
from threading import Event

import pytest
import torch

from llmc.frontend.archives import Archives
from llmc.pipelines.parameters import StoredParameter
from llmc.pipelines.recipes.recipe import Weight

ENTRIES = [StoredParameter(f"w{number}", Weight(("w",)), (2,), "f32") for number in range(1000)]


class Slow(dict):
    """Weights that take time to be read, and tell when the first one is, and how many were."""

    def __init__(self) -> None:
        super().__init__(w=torch.ones(2))
        self.begun, self.read = Event(), 0

    def __getitem__(self, name: str) -> torch.Tensor:
        self.begun.set()
        self.read += 1
        time.sleep(0.01)
        return super().__getitem__(name)


def test_targets_that_lay_weights_out_alike_share_an_archive(tmp_path):
    archives, names = Archives(tmp_path, {"w": torch.ones(2)}), []
    for target, entries in (("cpu", ENTRIES[:2]), ("vulkan", ENTRIES[1::-1]), ("cuda", ENTRIES)):
        with archives.writing(entries, target) as archive:
            names.append(archive.result())
    assert names == ["params.irpa", "params.irpa", "params.cuda.irpa"]
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_an_archive_is_given_up_where_the_work_beside_it_fails(tmp_path):
    weights = Slow()
    with (
        pytest.raises(KeyboardInterrupt),
        Archives(tmp_path, weights).writing(ENTRIES, "cpu") as archive,
    ):
        weights.begun.wait()
        raise KeyboardInterrupt
    with pytest.raises(CancelledError):
        archive.result()
    assert weights.read < len(ENTRIES)
    assert not list(tmp_path.iterdir())
