"""What several recipes have in common is computed once, and forgotten after the last of them."""

from collections import Counter

import numpy as np

from llmc.pipelines.recipes.quantize import Quantize
from llmc.pipelines.recipes.recipe import Computed, Weight
from llmc.pipelines.recipes.rough_spread import RoughMetric, RoughSpread
from llmc.pipelines.recipes.shared_results import SharedResults

QUANTIZED = Computed(Quantize("q8_0"), (Weight(("head",)),))
METRIC = Computed(RoughMetric(), (QUANTIZED,))
SPREAD = Computed(RoughSpread(), (QUANTIZED, METRIC))
LAYERS = Computed(Quantize("q8_0"), (Weight(("0.up", "1.up")),))


def test_each_result_is_computed_once_and_kept_until_the_last_has_had_it():
    values = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    reads: Counter[str] = Counter()

    def weight(name, part=None):
        reads[name] += 1
        return values

    recipes = [QUANTIZED, LAYERS, METRIC, SPREAD, LAYERS]
    shared = SharedResults(recipes)
    kept = []
    for recipe in recipes:
        shared.prepare(recipe, weight)
        for layer in range(recipe.layers):
            alone = recipe.compute(lambda name, part=None: values, layer, {})
            np.testing.assert_array_equal(recipe.compute(weight, layer, shared.known), alone)
        shared.release(recipe)
        kept.append([*shared.known])
    assert reads == {"head": 1, "0.up": 2, "1.up": 2}
    assert kept == [[QUANTIZED], [QUANTIZED], [QUANTIZED, METRIC], [], []]
