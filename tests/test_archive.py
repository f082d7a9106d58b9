"""Archives of weights in memory."""

import mmap
import re
import subprocess
import sys
from pathlib import Path

import iree.runtime as rt
import numpy as np
import pytest

from llmc.runtime.archive import map_archive


@pytest.fixture
def archive(tmp_path):
    """An archive of one entry, and what it holds."""
    numbers = np.random.default_rng(0).integers(0, 256, 5 << 20, np.uint8)
    index = rt.ParameterIndex()
    rt.parameter_index_add_numpy_ndarray(index, "w", numbers)
    path = tmp_path / "params.irpa"
    index.create_archive_file(str(path))
    return path, numbers


def test_entries_are_those_of_the_file(archive):
    path, numbers = archive
    index = map_archive(path)
    entry = dict(index.items())["w"]
    assert np.array_equal(np.frombuffer(entry.file_view, np.uint8), numbers)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no large pages to ask for")
def test_large_pages_are_asked_for(archive):
    path, _ = archive
    index = map_archive(path)
    _, _, own = Path("/proc/self/smaps").read_text().partition(str(path))
    flags = re.search(r"^VmFlags:(.*)$", own, re.M)
    assert flags and "hg" in flags[1].split()
    del index  # which kept it mapped


def test_weights_are_let_go_of_on_any_thread(tiny_bundle):
    script = Path(__file__).parent / "let_go.py"
    process = subprocess.run([sys.executable, script, tiny_bundle], timeout=300)
    assert process.returncode == 0
