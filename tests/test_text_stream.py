import json
import random
from collections.abc import Sequence

import pytest
from transformers.convert_slow_tokenizer import bytes_to_unicode

from llmc.runtime.errors import UserError
from llmc.runtime.text_stream import TextStream
from llmc.runtime.tokenizer import Tokenizer
from tests.sample_tokenizers import NO_FACTS, TEXTS, byte_fallback, byte_level, ids_of, smollm2

TOKENIZERS = {
    "byte-level": byte_level(),
    "byte-fallback": byte_fallback(),
    "metaspace": byte_fallback(metaspace_decoder=True),
}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return Tokenizer(TOKENIZERS[request.param], NO_FACTS)


@pytest.fixture
def byte_level_tokenizer():
    return Tokenizer(byte_level(), NO_FACTS)


def stream(tokenizer: Tokenizer, ids: Sequence[int], **options) -> str:
    text_stream = TextStream(tokenizer, **options)
    return "".join([*(text_stream.push(i) for i in ids), text_stream.finish()])


def random_ids(rng: random.Random, tokenizer: Tokenizer) -> list[int]:
    """Whole texts, cut ones, any ids (special and unknown too) and runs of a few ids, mixed."""
    ids: list[int] = []
    for _ in range(rng.randint(1, 6)):
        encoded = tokenizer.encode(rng.choice(TEXTS))
        start = rng.randint(0, len(encoded))
        few = [rng.randrange(300) for _ in range(3)]
        ids += rng.choice(
            [
                encoded,
                encoded[start : rng.randint(start, len(encoded))],
                rng.choices(range(520), k=10),
                rng.choices(few, k=60),
            ]
        )
    return ids


def test_whole_text_is_that_of_decode(tokenizer):
    rng = random.Random(0)
    for _ in range(400):
        ids = random_ids(rng, tokenizer)
        skip = rng.random() < 0.7
        assert stream(tokenizer, ids, skip_special=skip) == tokenizer.decode(ids, skip), ids


def test_sample_model_text_is_that_of_decode():
    tokenizer = Tokenizer(*smollm2())
    rng = random.Random(0)
    for _ in range(50):
        ids = rng.choices(range(49152), k=50) + tokenizer.encode(rng.choice(TEXTS))
        assert stream(tokenizer, ids) == tokenizer.decode(ids), ids


def test_text_comes_as_soon_as_it_is_certain(tokenizer):
    for text in TEXTS:
        ids = tokenizer.encode(text)
        text_stream, streamed = TextStream(tokenizer), ""
        for n, token_id in enumerate(ids, start=1):
            streamed += text_stream.push(token_id)
            # The text of a run of byte tokens is open until the run ends, and that of a character
            # whose last bytes are to come is U+FFFD until then.
            if not tokenizer.piece(token_id).startswith("<0x"):
                assert streamed == tokenizer.decode(ids[:n]).removesuffix("\ufffd")


def test_character_comes_whole_from_bytes(byte_level_tokenizer):
    thumb = [bytes_to_unicode()[byte] for byte in "👍".encode()]
    text_stream = TextStream(byte_level_tokenizer)
    ids = ids_of(byte_level_tokenizer, "a", *thumb)
    assert [text_stream.push(i) for i in ids] == ["a", "", "", "", "👍"]


def test_character_comes_whole_from_byte_fallback():
    tokenizer = Tokenizer(byte_fallback(), NO_FACTS)
    ids = ids_of(tokenizer, "a", *(f"<0x{byte:02X}>" for byte in "👍".encode()), "b")
    text_stream = TextStream(tokenizer)
    assert [text_stream.push(i) for i in ids] == ["a", "", "", "", "", "👍b"]


def test_byte_run_with_one_bad_byte_is_all_bad_as_in_decode():
    tokenizer = Tokenizer(byte_fallback(), NO_FACTS)
    ids = ids_of(tokenizer, "<0x41>", "<0xFF>", "a")
    assert stream(tokenizer, ids) == "\ufffd\ufffda" == tokenizer.decode(ids)


def test_leading_space_after_skipped_special_tokens_stays():
    tokenizer = Tokenizer(byte_fallback(), NO_FACTS)
    ids = ids_of(tokenizer, "<s>", "▁", "</s>", "▁", "<s>", "</s>", "▁", "a")
    assert stream(tokenizer, ids) == tokenizer.decode(ids) == "  a"


def test_space_after_a_piece_without_text_stays():
    vocabulary = json.loads(byte_fallback())
    vocabulary["model"]["vocab"][""] = 590
    tokenizer = Tokenizer(json.dumps(vocabulary), NO_FACTS)
    ids = [*ids_of(tokenizer, "a"), 590, *ids_of(tokenizer, "▁", "a")]
    assert stream(tokenizer, ids) == tokenizer.decode(ids) == "a a"


def test_long_runs_of_broken_characters(byte_level_tokenizer):
    """Bytes that never make a character, so that no place in the text is certain for long."""
    rng = random.Random(0)
    broken = [b"\xff", b"\xe4", b"\xe4\xbd", b"\xf0\x9f\x91", b"\xf0"]
    pieces = bytes_to_unicode()
    for _ in range(50):
        run = b"".join(rng.choices(broken, k=100))
        ids = ids_of(byte_level_tokenizer, "a", *(pieces[byte] for byte in run), "b")
        text = stream(byte_level_tokenizer, ids)
        assert text == byte_level_tokenizer.decode(ids) == f"a{run.decode(errors='replace')}b"


class CountingTokenizer(Tokenizer):
    """Counts the ids that it decodes."""

    decoded = 0

    def decode(self, ids, skip_special=True):
        self.decoded += len(ids)
        return super().decode(ids, skip_special)


@pytest.mark.parametrize(
    ("name", "pieces", "ids_per_push"),
    [
        ("byte-level", ["Ġthe", "Ġfox"], 4),
        ("byte-level", ["ÿ"], 60),  # never valid
        ("byte-level", ["ä"], 60),  # begins a character every time and ends none
        ("byte-fallback", ["▁the▁", "<0xF0>", "<0x9F>", "<0x91>", "<0x8D>"], 8),
        ("byte-fallback", ["<0xF0>"], 1),
    ],
)
def test_cost_of_a_token_does_not_grow(name, pieces, ids_per_push):
    tokenizer = CountingTokenizer(TOKENIZERS[name], NO_FACTS)
    ids = ids_of(tokenizer, *pieces) * (4000 // len(pieces))
    text_stream = TextStream(tokenizer)
    for token_id in ids:
        text_stream.push(token_id)
    text_stream.finish()
    assert tokenizer.decoded <= ids_per_push * len(ids)


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The definition: the text grows by characters until it ends with a stop string."""
    for end in range(len(text) + 1):
        ending = [s for s in stop if text[:end].endswith(s)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


def test_text_ends_before_the_first_stop_string(tokenizer):
    rng = random.Random(0)
    stopped = 0
    for _ in range(400):
        ids = random_ids(rng, tokenizer)
        text = tokenizer.decode(ids)
        stop = ["never there"]
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(text) + 1)
            stop.append(text[start : start + rng.randint(1, 12)] or "nor this")
        expected = cut_at_stop(text, stop)
        stopped += expected != text
        assert stream(tokenizer, ids, stop=stop) == expected, (ids, stop)
    assert stopped > 200


def test_stop_string_across_tokens_is_held_back_and_given_if_it_does_not_come(byte_level_tokenizer):
    ids = ids_of(byte_level_tokenizer, "a", "b", "c", "a", "b", "d", "e")
    text_stream = TextStream(byte_level_tokenizer, stop=["abd"])
    pushed = [text_stream.push(i) for i in ids[:5]]
    assert pushed == ["", "", "abc", "", ""]
    assert not text_stream.stopped
    assert [text_stream.push(i) for i in ids[5:]] == ["", ""]
    assert text_stream.stopped
    assert text_stream.finish() == ""


@pytest.mark.parametrize(("pieces", "held"), [("ab", "ab"), ("abä", "ab\ufffd")])
def test_finish_gives_what_was_held_back(byte_level_tokenizer, pieces, held):
    text_stream = TextStream(byte_level_tokenizer, stop=["abd"])
    for token_id in ids_of(byte_level_tokenizer, *pieces):
        assert text_stream.push(token_id) == ""
    assert text_stream.finish() == held


def test_empty_stop_string_is_refused(byte_level_tokenizer):
    with pytest.raises(UserError, match="empty"):
        TextStream(byte_level_tokenizer, stop=[""])
