"""What an archive stores weights as."""

from collections import Counter
from collections.abc import Iterable, Mapping

from llmc.pipelines.parameters import StoredParameter
from llmc.pipelines.recipes.quantize import Quantize
from llmc.pipelines.recipes.recipe import Computed, Recipe, Weight
from llmc.pipelines.recipes.split_float import SplitFloat

_CODED = "i8", "i16"


def bytes_by_type(stored: Iterable[StoredParameter], formats: Mapping[str, str]) -> dict[str, int]:
    """The bytes of an archive by format of blocks or element type.

    `formats` has the formats of those weights that the model's own files store as blocks.
    """
    counted: Counter[str] = Counter()
    for entry in stored:
        is_coded = entry.element in _CODED
        type_ = (is_coded and _type_of_bytes(entry.recipe, formats)) or entry.element
        counted[type_] += entry.bytes
    return dict(counted)


def _type_of_bytes(recipe: Recipe, formats: Mapping[str, str]) -> str | None:
    """What the bytes that a recipe computes were: blocks, or halves of floats; None of others."""
    match recipe:
        case Weight():
            return formats.get(recipe.sources[0])
        case Computed(step=Quantize(format=name)):
            return name
        case Computed(step=SplitFloat()):
            return "f16"
        case Computed():
            found = (_type_of_bytes(operand, formats) for operand in recipe.operands)
            return next(filter(None, found), None)
    return None
