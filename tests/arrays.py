"""Random arrays, the same in every run, and what PyTorch makes of them."""

import numpy as np
import torch

from llmc.frontend import torch_ops

_SEED = 0


class Arrays:
    """Draws arrays from one seed."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(_SEED)

    def uniform(self, *shape: int) -> np.ndarray:
        """Numbers between -1 and 1."""
        return self._generator.uniform(-1, 1, shape).astype(np.float32)

    def integers(self, below: int, *shape: int) -> np.ndarray:
        """Integers from 0 on."""
        return self._generator.integers(below, size=shape)

    def sizes(self, count: int) -> list[int]:
        """Sizes from 1 to 9."""
        return [int(size) + 1 for size in self.integers(9, count)]


def twin(name: str, *arguments) -> np.ndarray:
    """What the torch twin of an operation gives."""
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return getattr(torch_ops, name)(*tensors).numpy()


def assert_same(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    """All numbers agree, and so do shapes and element types."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance, strict=True)
