"""What several recipes have in common, computed once."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from llmc.pipelines.recipes.recipe import Computed, Recipe, WeightReader


class SharedResults:
    """What some of `recipes` need that others need too, as a head's parts its quantised weight.

    Each is computed by the first of them, and kept in `known` until the last has had it. Of recipes
    for several layers nothing is kept.
    """

    def __init__(self, recipes: Iterable[Recipe]) -> None:
        self.known: dict[Recipe, np.ndarray] = {}
        self._uses = Counter(part for recipe in recipes for part in _parts(recipe))

    def prepare(self, recipe: Recipe, weight: WeightReader) -> None:
        """Computes what is shared of `recipe`. Raises what its `compute` raises."""
        for part in _parts(recipe):
            if self._uses[part] > 1 and part not in self.known:
                self.known[part] = part.compute(weight, 0, self.known)

    def release(self, recipe: Recipe) -> None:
        """Forgets what only `recipe` still needed."""
        for part in _parts(recipe):
            self._uses[part] -= 1
            if not self._uses[part]:
                self.known.pop(part, None)


def _parts(recipe: Recipe) -> list[Computed]:
    """The steps of a recipe for one layer, each once and after those that it needs."""
    if not isinstance(recipe, Computed) or recipe.layers > 1:
        return []
    inner = [part for operand in recipe.operands for part in _parts(operand)]
    return [*dict.fromkeys([*inner, recipe])]
