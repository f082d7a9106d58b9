"""How config.json says that a model's linear layers are packed into 4 bits: GPTQ or AWQ."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llmc.dialects.blocks import INT4_G64, INT4_G128, Q4_1, BlockFormat
from llmc.runtime.errors import UserError, one_line

_FORMATS = {format_.values: format_ for format_ in (Q4_1, INT4_G64, INT4_G128)}


@dataclass(frozen=True)
class Packing:
    """Integers of 4 bits in groups of a row, each with a scale and a zero point.

    `format` is that of the blocks which hold such groups. In GPTQ's first convention a zero point
    is stored less one: `zeros_less_one`.
    """

    method: Literal["gptq", "awq"]
    format: BlockFormat
    zeros_less_one: bool = False


def read_packing(path: Path, content: Mapping[str, Any]) -> Packing | None:
    """What the `quantization_config` in the config.json `content` says; None where there is none.

    UserError, which begins with `path`, for what llmc does not read.
    """
    settings = content.get("quantization_config")
    if not settings:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    if method not in ("gptq", "awq"):
        raise UserError(
            f"{path}: the weights are quantised ({one_line(method)}), which llmc reads as gptq,"
            " awq or GGUF: use one of these or the original model"
        )
    _require(path, method, settings, "bits", 4)
    _require(path, method, settings, "group_size", *_FORMATS)
    format_ = _FORMATS[settings["group_size"]]
    if method == "awq":
        _require(path, method, settings, "version", "gemm")
        _require(path, method, settings, "zero_point", True)
        return Packing(method, format_)
    convention = settings.get("checkpoint_format", "gptq")
    _require(path, method, {"checkpoint_format": convention}, "checkpoint_format", *_CONVENTIONS)
    if settings.get("dynamic"):
        raise UserError(
            f"{path}: its layers are quantised each in its own way (dynamic), which llmc does not"
            " read: use a model with one way for all"
        )
    return Packing(method, format_, zeros_less_one=_CONVENTIONS[convention])


# Whether a zero point is stored less one.
_CONVENTIONS = {"gptq": True, "gptq_v2": False}


def _require(
    path: Path, method: str, settings: Mapping[str, Any], name: str, *allowed: object
) -> None:
    value = settings.get(name)
    # True is 1 in Python, and a list is no key.
    if not any(type(value) is type(each) and value == each for each in allowed):
        listed = " or ".join(map(str, allowed))
        raise UserError(
            f"{path}: {method} with {name} {one_line(value)} is not supported: llmc reads {listed}"
        )
