"""A digest of Python code: what was made by other code is another thing."""

import hashlib
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from pathlib import Path


def package_folders(names: Iterable[str]) -> list[Path]:
    """The folders of the packages called `names`, found without importing them."""
    specs = [find_spec(name) for name in names]
    return [
        Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()
    ]


def code_digest(folders: Iterable[Path], apart: Collection[str] = ()) -> str:
    """SHA-256 of the names and contents of the Python files in `folders`, in their order.

    Folders directly in these that are named in `apart` are left out.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).parts[0] in apart:
                continue
            code = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(code)}\n".encode() + code)
    return digest.hexdigest()
