"""The bundle's manifest: the one schema that the compiler writes and the runtime reads.

A bundle is a folder of `tokenizer.json`, `manifest.json` and, for each target, a module and the
archive of its weights; targets that lay them out alike share one. A sharded bundle has them for
each rank, and a machine needs those of its ranks only. The dataclasses below *are* the schema, that
`converted` checks a whole file against.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from llmc.runtime.abi import GREEDY
from llmc.runtime.errors import UserError
from llmc.runtime.fields import Count, PositiveCount, Rule, Seconds, Text, brief, converted, one_of

SCHEMA = 8
CPU_ARCHS = ("x86_64", "aarch64")
MANIFEST = "manifest.json"
# Those of the first target, on one device.
MODULE = "module.vmfb"
PARAMETERS = "params.irpa"
TOKENIZER = "tokenizer.json"

# A manifest is a few kilobytes, most of it the chat template; a larger file is something else.
_MAX_BYTES = 16 << 20


FeatureName = Annotated[
    str,
    Rule(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch, "must be a feature's plain name"),
]
AxisName = Annotated[
    str, Rule(re.compile(r"[a-z]+").fullmatch, "must be a word of lowercase letters, as tp")
]
FileName = Annotated[
    str,
    Rule(
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch,
        "must be a file name of letters, digits, '.', '_' and '-', without a folder",
    ),
]
Sha256 = Annotated[
    str, Rule(re.compile(r"[0-9a-f]{64}").fullmatch, "must be 64 lowercase hexadecimal digits")
]


@dataclass(frozen=True)
class ModelFacts:
    """The model that was compiled; `dtype` is the type of most of its weights."""

    family: Text
    layers: PositiveCount
    hidden_size: PositiveCount
    vocab_size: PositiveCount
    parameters: PositiveCount
    dtype: Text


@dataclass(frozen=True)
class TokenizerFacts:
    """What the model's configuration knows of its tokens and `tokenizer.json` does not say."""

    bos_token: str | None
    eos_token: str | None
    bos_token_id: Count | None
    eos_token_ids: tuple[Count, ...]
    chat_template: str | None


@dataclass(frozen=True)
class TargetFacts:
    """The device the code is for.

    `arch` is a CPU's instruction set, x86_64 or aarch64, or a GPU's architecture, as sm_80; `name`
    is the one given to the compiler. `features` are what the code may use: of a CPU by their LLVM
    or /proc/cpuinfo names (see `llmc.runtime.devices.missing_features`), of Vulkan by Vulkan's.
    """

    device: Annotated[str, one_of("cpu", "vulkan", "cuda")]
    arch: Text
    name: Text
    features: tuple[FeatureName, ...]


@dataclass(frozen=True)
class FileFacts:
    """Size in bytes and SHA-256 of one file of the bundle."""

    size: Count
    sha256: Sha256

    @classmethod
    def of(cls, path: Path) -> FileFacts:
        """Reads the whole file at `path`; OSError if it cannot."""
        # Here, for it brings OpenSSL, whose memory a model that runs has no need of.
        import hashlib

        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(size=file.tell(), sha256=digest)


@dataclass(frozen=True)
class Axis:
    """One axis of the grid of ranks: what it splits, as tp or pp, and into how many."""

    name: AxisName
    size: PositiveCount


@dataclass(frozen=True)
class ModuleFacts:
    """The code for one target and rank, and the archive of the weights as it reads them.

    `rank` is its index in the grid, of which the last axis runs fastest. `weight_bytes` maps an
    element type, or a format of blocks, to the bytes of the archive that are so. `integers` is the
    type that its functions take and return integers in. `kv_bytes_per_token` is what a token takes
    in the KV cache, which has room for a multiple of `kv_columns` tokens. `dispatches` maps a
    function of the module (abi.py) to the number of kernels that a call of it runs.
    """

    target: TargetFacts
    rank: Count
    module: FileName
    parameters: FileName
    weight_bytes: dict[Text, Count]
    integers: Annotated[str, one_of("i32", "i64")]
    kv_bytes_per_token: Count
    kv_columns: PositiveCount
    dispatches: dict[Text, Count]

    @property
    def types_by_bytes(self) -> list[tuple[str, int]]:
        """What weights are stored as, and the bytes of each, most bytes first."""
        return sorted(self.weight_bytes.items(), key=lambda item: -item[1])

    def kv_room(self, tokens: int) -> int:
        """How many tokens whole cells have room for that have room for so many."""
        return -(-tokens // self.kv_columns) * self.kv_columns

    def kv_bytes(self, tokens: int) -> int:
        """What a KV cache of one sequence takes that has room for so many tokens."""
        return self.kv_room(tokens) * self.kv_bytes_per_token


@dataclass(frozen=True)
class Stage:
    """One stage of the compilation and its wall time."""

    name: Text
    seconds: Seconds


@dataclass(frozen=True)
class CompileFacts:
    """How the bundle was made: wall time in all and by stage, and the options given.

    `tuned_kernels` is how many kernels are as `llmc tune` found them to be fastest.
    """

    seconds: Seconds
    stages: tuple[Stage, ...]
    tuned_kernels: Count
    options: dict[str, str | int | bool | None]


@dataclass(frozen=True)
class Manifest:
    """All that is known of a bundle before anything in it is opened.

    `context` is the largest number of tokens, prompt and answer together. `grid` has the axes of
    the ranks that run the model together; it is empty where one device runs it. There is one of
    `modules` for each target and rank, in the order in which targets were asked for. `versions`
    maps a package to the version that took part.
    """

    schema: PositiveCount
    name: Text
    model: ModelFacts
    context: PositiveCount
    grid: tuple[Axis, ...]
    modules: tuple[ModuleFacts, ...]
    tokenizer: TokenizerFacts
    versions: dict[str, str]
    files: dict[FileName, FileFacts]
    compile: CompileFacts

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads and checks `folder`/manifest.json.

        UserError if the folder is no bundle, was made by another version of llmc, or any field is
        missing, unknown, of the wrong type or out of range. The other files are not looked at.
        """
        return _parse(_load(folder), f"bundle {folder}")

    def write(self, folder: Path) -> None:
        """Writes `folder`/manifest.json; UserError if it could not be read back, OSError."""
        text = json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True, ensure_ascii=False)
        _parse(json.loads(text), f"bundle {folder}")
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    @property
    def ranks(self) -> int:
        """How many ranks run the model together."""
        return math.prod(axis.size for axis in self.grid)

    def files_of(self, rank: int) -> dict[str, FileFacts]:
        """The files that `rank` needs; the text is rank 0's."""
        names = {TOKENIZER} if rank == 0 else set()
        for code in self.modules:
            if code.rank == rank:
                names |= {code.module, code.parameters}
        return {name: facts for name, facts in self.files.items() if name in names}

    def check_sizes(self, folder: Path, rank: int | None = None) -> None:
        """Checks that all files, or those of `rank`, are there with their sizes: UserError.

        Reads none.
        """
        for name, facts in (self.files if rank is None else self.files_of(rank)).items():
            try:
                status = (folder / name).stat()
            except OSError as error:
                raise UserError(f"bundle {folder}: {name}: {error.strerror}") from error
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"bundle {folder}: {name} is not a file")
            if status.st_size != facts.size:
                raise UserError(
                    f"bundle {folder}: {name} has {status.st_size} bytes and should have "
                    f"{facts.size}: copy or compile it again"
                )

    def verify_hashes(self, folder: Path) -> None:
        """Checks sizes, then reads every listed file and checks its SHA-256: UserError."""
        self.check_sizes(folder)
        for name, facts in self.files.items():
            try:
                actual = FileFacts.of(folder / name)
            except OSError as error:
                raise UserError(f"bundle {folder}: {name}: {error.strerror}") from error
            if actual != facts:
                raise UserError(
                    f"bundle {folder}: {name} is damaged (its SHA-256 is not the manifest's): "
                    "copy or compile it again"
                )


def _load(folder: Path) -> object:
    path = folder / MANIFEST
    try:
        if path.exists() and not path.is_file():  # A pipe would be waited for.
            raise UserError(f"bundle {folder}: {MANIFEST} is not a file")
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        if not folder.exists():
            raise UserError(f"there is no bundle {folder}") from error
        raise UserError(f"{folder} is not a bundle: it has no {MANIFEST}") from error
    except OSError as error:
        raise UserError(f"bundle {folder}: cannot read {MANIFEST}: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise UserError(f"bundle {folder}: {MANIFEST} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"bundle {folder}: {MANIFEST} is not valid JSON: {error}") from error


def _parse(value: object, bundle: str) -> Manifest:
    try:
        # Before all else: another schema is a fact to report, not a list of wrong fields.
        if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
            raise ValueError(
                f"schema: is {brief(value['schema'])}: made by another llmc version: recompile"
            )
        manifest: Manifest = converted(value, Manifest)
        _check_relations(manifest)
    except ValueError as error:
        raise UserError(f"{bundle}: {MANIFEST}: {error}") from error
    return manifest


def _check_relations(manifest: Manifest) -> None:
    """What no field can say alone."""
    if not manifest.modules:
        raise ValueError("modules: must not be empty")
    if TOKENIZER not in manifest.files:
        raise ValueError(f"files: {TOKENIZER} is not listed")
    for number, code in enumerate(manifest.modules):
        for field in ("module", "parameters"):
            if (name := getattr(code, field)) not in manifest.files:
                raise ValueError(f"modules[{number}].{field}: {name} is not one of files")
    ranks = {code.rank for code in manifest.modules}
    # Without a list of them all, for a damaged grid may have any number.
    if len(ranks) != manifest.ranks or max(ranks) >= manifest.ranks:
        raise ValueError("modules: must be of each rank of the grid")
    if len({axis.name for axis in manifest.grid}) < len(manifest.grid):
        raise ValueError("grid: must not have two axes of one name")
    for number, code in enumerate(manifest.modules):
        if GREEDY not in code.dispatches:
            raise ValueError(f"modules[{number}].dispatches: {GREEDY} is not listed")
        if code.target.device == "cpu" and code.target.arch not in CPU_ARCHS:
            known = " or ".join(CPU_ARCHS)
            raise ValueError(f"modules[{number}].target.arch: must be {known} of a CPU")
    tokenizer, vocab_size = manifest.tokenizer, manifest.model.vocab_size
    for field, ids in (
        ("bos_token_id", (tokenizer.bos_token_id,)),
        ("eos_token_ids", tokenizer.eos_token_ids),
    ):
        for token_id in ids:
            if token_id is not None and token_id >= vocab_size:
                raise ValueError(f"tokenizer.{field}: {token_id} is not below model.vocab_size")
