import copy
import dataclasses
import hashlib
import json
import math
import os
from pathlib import Path

import pytest

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import (
    MANIFEST,
    SCHEMA,
    Axis,
    CompileFacts,
    FileFacts,
    Manifest,
    ModelFacts,
    ModuleFacts,
    Stage,
    TargetFacts,
    TokenizerFacts,
)

FILES = {"module.vmfb": b"code", "params.irpa": b"\0" * 100_000, "tokenizer.json": b""}


def make_bundle(folder: Path) -> Manifest:
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    manifest = Manifest(
        schema=SCHEMA,
        name="SmolLM2 é",
        model=ModelFacts("llama", 30, 576, 49152, 134515008, "q4_1"),
        context=2048,
        grid=(),
        modules=(
            ModuleFacts(
                TargetFacts("cpu", "x86_64", "znver3", ("avx2", "sse4.1", "avx512_vnni")),
                0,
                "module.vmfb",
                "params.irpa",
                {"q4_1": 80_000, "f32": 20_000},
                "i64",
                23040,
                512,
                {"prefill": 728, "greedy": 516},
            ),
        ),
        tokenizer=TokenizerFacts("<|im_start|>", None, 1, (2, 0), "{{ 'naïve' }}\n"),
        versions={"iree-base-compiler": "3.13.0"},
        files={name: FileFacts.of(folder / name) for name in FILES},
        compile=CompileFacts(
            12.5, (Stage("import", 1.5), Stage("iree", 11.0)), 9, {"schedule": None, "tile": 8}
        ),
    )
    manifest.write(folder)
    return manifest


@pytest.fixture
def bundle(tmp_path):
    make_bundle(tmp_path)
    return tmp_path


def edit(bundle: Path, change) -> None:
    path = bundle / "manifest.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def error_of(bundle: Path) -> str:
    with pytest.raises(UserError) as caught:
        Manifest.read(bundle)
    message = str(caught.value)
    assert str(bundle) in message
    assert "\n" not in message
    assert len(message) < len(str(bundle)) + 200
    return message


def test_what_is_written_is_read(tmp_path):
    manifest = make_bundle(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    text = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    assert "SmolLM2 é" in text
    keys = list(json.loads(text))
    assert keys == sorted(keys)


def test_a_cache_has_room_for_whole_cells(tmp_path):
    (code,) = make_bundle(tmp_path).modules
    assert [code.kv_bytes(tokens) for tokens in (1, 512, 513)] == [
        columns * code.kv_bytes_per_token for columns in (512, 512, 1024)
    ]


def test_undamaged_files_pass(bundle):
    manifest = Manifest.read(bundle)
    manifest.check_sizes(bundle)
    manifest.verify_hashes(bundle)
    assert manifest.files["params.irpa"].size == 100_000
    assert manifest.files["module.vmfb"].sha256 == hashlib.sha256(b"code").hexdigest()


def paths_of(value: object, path: tuple = ()) -> list[tuple]:
    """The places of all values in the manifest, those in lists and objects included."""
    here = [path] if path else []
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return here + [place for key, x in items for place in paths_of(x, (*path, key))]


def parent_of(value: dict, path: tuple):
    for key in path[:-1]:
        value = value[key]
    return value


def test_any_value_of_a_wrong_type_is_refused(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    accepted = set()
    for path in paths_of(manifest):
        original = parent_of(manifest, path)[path[-1]]
        for wrong in (None, True, 7, 1.5, math.nan, "x", [], {}, [1], {"a": 1}):
            if type(wrong) is type(original):
                continue
            damaged = copy.deepcopy(manifest)
            parent_of(damaged, path)[path[-1]] = wrong
            (bundle / "manifest.json").write_text(json.dumps(damaged), encoding="utf-8")
            try:
                Manifest.read(bundle)
            except UserError as error:
                assert str(path[-1]) in str(error)
            else:
                accepted.add((".".join(map(str, path)), type(wrong)))
    texts = {f"tokenizer.{name}" for name in ("bos_token", "chat_template")}
    seconds = {"compile.seconds", "compile.stages.0.seconds", "compile.stages.1.seconds"}
    assert accepted == (
        {(name, type(None)) for name in texts | {"tokenizer.bos_token_id"}}
        | {("tokenizer.eos_token", str)}
        | {(name, int) for name in seconds}
        | {("compile.options.schedule", kind) for kind in (bool, int, str)}
        | {("compile.options.tile", kind) for kind in (bool, str, type(None))}
    )


def test_every_field_is_required(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    fields = [p for p in paths_of(manifest) if isinstance(parent_of(manifest, p), dict)]
    free = ("versions", "options", "dispatches", "weight_bytes")
    for path in fields:
        if len(path) > 1 and path[-2] in free:
            continue
        damaged = copy.deepcopy(manifest)
        del parent_of(damaged, path)[path[-1]]
        (bundle / "manifest.json").write_text(json.dumps(damaged), encoding="utf-8")
        assert path[-1] in error_of(bundle)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", ""),
        ("name", "\ud800"),
        ("context", 0),
        ("context", 2**63),
        ("context", "9" * 1000),
        ("modules.0.kv_bytes_per_token", -1),
        ("modules.0.kv_columns", 0),
        ("modules.0.dispatches", {"greedy": -1}),
        ("modules.0.weight_bytes", {"f32": -1}),
        ("modules.0.dispatches", {"prefill": 1}),
        ("modules.0.kv_bytes_per_token", 2**63),
        ("model.vocab_size", 0),
        ("tokenizer.bos_token_id", -1),
        ("tokenizer.bos_token_id", 49152),
        ("tokenizer.eos_token_ids", [2, 49152]),
        ("modules", []),
        ("modules.0.rank", -1),
        ("modules.0.rank", 2**63),
        ("grid", [{"name": "", "size": 1}]),
        ("grid", [{"name": "t p", "size": 1}]),
        ("grid", [{"name": "tp", "size": 0}]),
        ("grid", [{"name": "tp", "size": 1}, {"name": "tp", "size": 1}]),
        ("modules.0.module", "../x"),
        ("modules.0.parameters", "none.irpa"),
        ("modules.0.integers", "i8"),
        ("modules.0.target.device", "toaster"),
        ("modules.0.target.arch", "z80"),
        ("modules.0.target.features", ["+avx2"]),
        ("modules.0.target.features", ["avx2", ""]),
        ("compile.seconds", -1.0),
        ("compile.seconds", math.inf),
        ("compile.seconds", 10**400),
        ("compile.stages", [{"name": "", "seconds": 1.0}]),
        ("files", {}),
    ],
)
def test_value_out_of_range_is_refused(bundle, path, value):
    place = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
    edit(bundle, lambda manifest: parent_of(manifest, place).update({place[-1]: value}))
    assert path.replace(".0", "[0]") in error_of(bundle)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/b", "a\\b", "C:x", "..", ".", "", "a\nb", "a\0b", "\ud800"]
)
def test_file_name_that_leaves_the_bundle_is_refused(bundle, name):
    edit(
        bundle, lambda manifest: manifest["files"].update({name: manifest["files"]["module.vmfb"]})
    )
    assert "files" in error_of(bundle)


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64])
def test_digest_of_another_form_is_refused(bundle, digest):
    edit(bundle, lambda manifest: manifest["files"]["params.irpa"].update(sha256=digest))
    assert "params.irpa" in error_of(bundle)


def test_unknown_field_is_named(bundle):
    edit(bundle, lambda manifest: manifest["model"].update({"co\nlour": 1}))
    assert 'model."co\\nlour"' in error_of(bundle)


def test_other_schema_asks_to_recompile(bundle):
    edit(bundle, lambda manifest: (manifest.clear(), manifest.update(schema=1, other=True)))
    assert "another llmc version" in error_of(bundle)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-20],
        lambda data: b"",
        lambda data: b"[]",
        lambda data: data.replace("é".encode(), b"\xe9"),
        lambda data: b"[" * 100_000,
        lambda data: data.replace(b"2048", b"9" * 5000),
        lambda data: data + b" " * (17 << 20),
    ],
    ids=["truncated", "empty", "list", "latin-1", "deep", "long number", "large"],
)
def test_damaged_file_is_refused(bundle, damage):
    path = bundle / "manifest.json"
    path.write_bytes(damage(path.read_bytes()))
    assert "manifest" in error_of(bundle)


def test_folder_that_is_no_bundle_is_named(tmp_path):
    assert "not a bundle" in error_of(tmp_path)
    assert "no bundle" in error_of(tmp_path / "missing")
    (tmp_path / "file").touch()
    assert "Not a directory" in error_of(tmp_path / "file")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / MANIFEST)
    with pytest.raises(UserError, match="is not a file"):
        Manifest.read(tmp_path)


def test_nothing_unreadable_is_written(bundle):
    manifest = dataclasses.replace(Manifest.read(bundle), context=0)
    before = (bundle / "manifest.json").read_bytes()
    with pytest.raises(UserError, match="context"):
        manifest.write(bundle)
    assert (bundle / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("content", [FILES["params.irpa"][:-1], FILES["params.irpa"] + b"x"])
def test_file_of_another_size_is_named(bundle, content):
    (bundle / "params.irpa").write_bytes(content)
    with pytest.raises(UserError, match=r"params\.irpa has \d+ bytes and should have 100000"):
        Manifest.read(bundle).check_sizes(bundle)
    with pytest.raises(UserError, match=r"params\.irpa has \d+ bytes"):
        Manifest.read(bundle).verify_hashes(bundle)


def test_missing_file_is_named(bundle):
    (bundle / "module.vmfb").unlink()
    with pytest.raises(UserError, match=r"module\.vmfb: No such file"):
        Manifest.read(bundle).check_sizes(bundle)


def test_folder_in_place_of_a_file_is_named(bundle):
    (bundle / "tokenizer.json").unlink()
    (bundle / "tokenizer.json").mkdir()
    with pytest.raises(UserError, match=r"tokenizer\.json is not a file"):
        Manifest.read(bundle).check_sizes(bundle)


def test_one_changed_bit_is_found_by_its_hash(bundle):
    content = bytearray(FILES["params.irpa"])
    content[77_777] ^= 1
    (bundle / "params.irpa").write_bytes(content)
    manifest = Manifest.read(bundle)
    manifest.check_sizes(bundle)
    with pytest.raises(UserError, match=r"params\.irpa is damaged"):
        manifest.verify_hashes(bundle)


@pytest.fixture
def sharded(bundle):
    """Two ranks with one code and archives of their own."""
    manifest = Manifest.read(bundle)
    (code,) = manifest.modules
    (bundle / "params.rank1.irpa").write_bytes(b"other")
    files = {"params.rank1.irpa": FileFacts.of(bundle / "params.rank1.irpa")}
    dataclasses.replace(
        manifest,
        grid=(Axis("dp", 1), Axis("tp", 2)),
        modules=(code, dataclasses.replace(code, rank=1, parameters="params.rank1.irpa")),
        files=manifest.files | files,
    ).write(bundle)
    return bundle


def test_a_rank_needs_its_own_files_only(sharded):
    manifest = Manifest.read(sharded)
    assert manifest.ranks == 2
    (sharded / "params.irpa").unlink()
    manifest.check_sizes(sharded, 1)
    with pytest.raises(UserError, match=r"params\.irpa"):
        manifest.check_sizes(sharded, 0)
    (sharded / "tokenizer.json").unlink()
    manifest.check_sizes(sharded, 1)


@pytest.mark.parametrize("sizes", [(1,), (3,), (2, 2), (2**62, 2**62), ()])
def test_a_grid_of_other_ranks_than_the_modules_is_refused(sharded, sizes):
    axes = [{"name": name, "size": size} for name, size in zip(("dp", "tp"), sizes, strict=False)]
    edit(sharded, lambda manifest: manifest.update(grid=axes))
    assert "modules" in error_of(sharded)
