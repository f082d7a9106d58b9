"""Tokenizers as text: what is written tokenizes as what was read."""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordLevel

from llmc.frontend.tokenizer_json import fitted_json


@pytest.mark.parametrize(
    ("merges", "short"),
    [
        ([("a", "b"), ("ab", "c"), ("ä", "b")], True),
        ([("a", "b"), ("ab", " ")], False),
        ([("#version", "a")], False),
        ([], False),
    ],
    ids=["plain", "space", "comment", "none"],
)
def test_merges_are_lines_where_a_line_can_hold_them(
    merges: list[tuple[str, str]], short: bool
) -> None:
    tokens = [*"abc ä", "#version", *("".join(pair) for pair in merges)]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(BPE(vocabulary, merges))
    text = fitted_json(tokenizer, len(vocabulary), "test")
    written = json.loads(text)["model"]["merges"]
    assert written == [" ".join(pair) if short else list(pair) for pair in merges]
    for example in ("abc ab c", "äb#versionab ab", " a  b"):
        assert Tokenizer.from_str(text).encode(example).ids == tokenizer.encode(example).ids


def test_model_without_merges() -> None:
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
    text = fitted_json(tokenizer, 2, "test")
    assert Tokenizer.from_str(text).encode("b").ids == [1]
