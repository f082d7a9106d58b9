"""Who takes part: contenders by name, each with what its worker needs to open it."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llmc.frontend.bench.contender import Contender
from llmc.frontend.options import CompileOptions
from llmc.runtime.errors import UserError
from llmc.runtime.heap import importing
from llmc.runtime.manifest import Manifest
from llmc.runtime.placement import place_module

OURS = "llmc"
# Where each kind's class is; imported in the worker alone, for each brings in a framework.
_CLASSES = {
    OURS: ("llmc.frontend.bench.llmc", "Compiled"),
    "llama.cpp": ("llmc.frontend.bench.llama_cpp", "LlamaCpp"),
    "torch": ("llmc.frontend.bench.torch_eager", "TorchEager"),
    "openvino": ("llmc.frontend.bench.openvino", "OpenVINO"),
    "iree": ("llmc.frontend.bench.iree_alone", "IREEAlone"),
}
PEERS = tuple(kind for kind in _CLASSES if kind != OURS)
_GGUF_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
# Those that run GGUF files do so with their fastest type, and with all of as few bits as ours where
# ours is a 4-bit one, of any group.
_RUN_GGUF = ("llama.cpp", "openvino")
_FASTEST = "Q4_0"
_FOUR_BITS = ("Q4_0", "Q4_1")


@dataclass(frozen=True)
class Entrant:
    """A contender that is yet to be opened: `settings` are its class's keyword arguments."""

    name: str
    kind: str
    settings: Mapping[str, Any]

    def open(self) -> Contender:
        """Loads it. Raises MissingError, UserError, ImportError."""
        module, name = _CLASSES[self.kind]
        with importing():
            imported = importlib.import_module(module)
        contender: Contender = getattr(imported, name)(**self.settings)
        return contender


def ours(bundle: Path, threads: int) -> Entrant:
    """The compiled model in the folder `bundle`. UserError where one CPU cannot run it alone."""
    manifest = Manifest.read(bundle)
    if manifest.ranks > 1:
        raise UserError(f"{bundle} is for {manifest.ranks} ranks: measure one without a grid")
    code = place_module(manifest, bundle, "cpu").code
    settings = {
        "module": str(bundle / code.module),
        "parameters": str(bundle / code.parameters),
        "vocabulary": manifest.model.vocab_size,
        "weights": manifest.model.dtype,
        "threads": threads,
    }
    return Entrant(OURS, OURS, settings)


def peers(
    kinds: Iterable[str], model: str, options: CompileOptions, storage: str, threads: int
) -> list[Entrant]:
    """Those that `kinds` ask for, on the weights of the model called `model`.

    `storage` is the type that most of its weights are stored in, as `LoadedModel` names it.
    """
    stored = _GGUF_NAMES.get(storage, storage)
    entrants = []
    for kind in kinds:
        common = {"model": model, "threads": threads}
        if kind in _RUN_GGUF:
            same = stored if options.dtype == "as-is" else options.dtype.upper()
            common |= {"stored": stored, "layers": options.layers}
            entrants += [
                Entrant(f"{kind} {type_}", kind, {**common, "weights": type_})
                for type_ in _gguf_types(same)
            ]
        else:
            entrants.append(Entrant(kind, kind, {**common, "options": asdict(options)}))
    return entrants


def _gguf_types(same: str) -> Sequence[str]:
    """What a runner of GGUF files is run with where our weights are of the type `same`."""
    is_alike = same in _FOUR_BITS or same.startswith("INT4")
    return _FOUR_BITS if is_alike else (same, _FASTEST)
