import json
import time
from datetime import datetime

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models
from transformers import PreTrainedTokenizerFast

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import TokenizerFacts
from llmc.runtime.tokenizer import Tokenizer
from tests.sample_tokenizers import NO_FACTS, TEXTS, byte_fallback, byte_level, smollm2

CHATS = (
    [{"role": "user", "content": "Hi <|im_end|> there"}],
    [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "1 + 1 = ?"},
        {"role": "assistant", "content": "2 <b>&amp; 'no' more</b>"},
        {"role": "user", "content": "你好 👍🏽"},
    ],
)
# Between them, all that Hugging Face offers to templates: block trimming, the sentence tokens,
# namespaces, `tojson`, `break`, `strftime_now`, `generation`.
TEMPLATES = (
    "{{ bos_token }}{% for m in messages %}\n"
    "    {% if m.role == 'assistant' %}\n"
    "{% generation %}{{ m.content | trim + eos_token }}{% endgeneration %}\n"
    "    {% else %}\n"
    "[{{ m['role'] }}] {{ m['content'] | tojson }}\n"
    "    {% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'assistant' %}{% break %}"
    "{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }} {{ strftime_now('%Y') }} "
    "{% if unk_token is not defined and tools is none %}"
    "{{ messages | tojson(indent=2) }}{% endif %}",
)


def hugging_face(tokenizer_json: str, facts: TokenizerFacts) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=Backend.from_str(tokenizer_json),
        bos_token=facts.bos_token,
        eos_token=facts.eos_token,
        chat_template=facts.chat_template,
    )


def with_template(template: str | None, **tokens: str) -> Tokenizer:
    facts = TokenizerFacts(
        tokens.get("bos_token"), tokens.get("eos_token"), None, (), chat_template=template
    )
    return Tokenizer(byte_level(), facts)


@pytest.fixture(params=["smollm2", "byte-level", "byte-fallback"])
def pair(request):
    """A tokenizer and Hugging Face's for the same file."""
    if request.param == "smollm2":
        source, facts = smollm2()
    else:
        source = byte_level() if request.param == "byte-level" else byte_fallback()
        facts = TokenizerFacts("<s>", "</s>", 1, (2,), TEMPLATES[0])
    return Tokenizer(source, facts), hugging_face(source, facts)


def test_ids_are_those_of_hugging_face(pair):
    tokenizer, reference = pair
    for text in TEXTS:
        assert tokenizer.encode(text) == reference(text)["input_ids"]
        plain = reference(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.encode(text, special=False) == plain


def test_text_is_that_of_hugging_face(pair):
    tokenizer, reference = pair
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=True)
        assert tokenizer.decode(ids, skip_special=False) == reference.decode(ids)


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("chat", CHATS)
def test_chats_are_those_of_hugging_face(pair, chat, add_generation_prompt):
    tokenizer, reference = pair
    assert tokenizer.render_chat(chat, add_generation_prompt) == reference.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=add_generation_prompt
    )
    assert tokenizer.encode_chat(chat, add_generation_prompt) == reference.apply_chat_template(
        chat, return_dict=False, add_generation_prompt=add_generation_prompt
    )


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("chat", CHATS)
def test_templates_render_as_in_hugging_face(template, chat):
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = with_template(template, **tokens)
    reference = hugging_face(byte_level(), tokenizer.facts)
    expected = reference.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert tokenizer.render_chat(chat) == expected


def test_token_that_the_model_lacks_is_undefined_in_its_template():
    tokenizer = with_template("{{ bos_token }}{{ eos_token is defined }}")
    assert tokenizer.render_chat(CHATS[0]) == "False"


def test_chat_text_gets_no_second_start_token():
    tokenizer = with_template("{{ bos_token }}{{ messages[0].content }}", bos_token="<s>")
    ids = tokenizer.encode_chat([{"role": "user", "content": "Hello"}])
    assert ids == tokenizer.encode("Hello")
    assert ids.count(tokenizer.encode("")[0]) == 1


@pytest.fixture
def tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_time_is_the_local_one():
    before = datetime.now().replace(microsecond=0)
    rendered = with_template("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}").render_chat(CHATS[0])
    assert before <= datetime.fromisoformat(rendered) <= datetime.now()


def test_file_is_read_like_its_text(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(byte_level(), encoding="utf-8")
    assert Tokenizer(path, NO_FACTS).encode(TEXTS[0]) == Tokenizer(byte_level(), NO_FACTS).encode(
        TEXTS[0]
    )


def test_truncation_and_padding_of_the_file_are_ignored():
    backend = Backend.from_str(byte_level())
    backend.enable_truncation(3)
    backend.enable_padding(length=50)
    tokenizer = Tokenizer(backend.to_str(), NO_FACTS)
    assert tokenizer.encode(TEXTS[0]) == Tokenizer(byte_level(), NO_FACTS).encode(TEXTS[0])


def without_model() -> str:
    tokenizer = json.loads(byte_level())
    del tokenizer["model"]
    return json.dumps(tokenizer)


def without_special_tokens() -> str:
    tokenizer = json.loads(byte_level())
    tokenizer["post_processor"]["special_tokens"] = {}
    return json.dumps(tokenizer)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        byte_level().encode()[:5000],
        without_model().encode(),
        without_special_tokens().encode(),
    ],
)
def test_broken_file_is_one_line(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json is not a tokenizer") as caught:
        Tokenizer(path, NO_FACTS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        models.WordLevel({"a": 0}, unk_token="<unk>"),
        models.WordPiece({"a": 0}, unk_token="<unk>"),
        models.BPE({"a": 0}, [], unk_token="<unk>"),
        models.Unigram([("a", 0.0)], None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_text_that_the_vocabulary_lacks_is_refused(model):
    tokenizer = Tokenizer(Backend(model).to_str(), NO_FACTS)
    assert tokenizer.encode("a") == [0]
    with pytest.raises(UserError) as caught:
        tokenizer.encode("z")
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.json: No such file"):
        Tokenizer(tmp_path / "nowhere.json", NO_FACTS)


def test_text_that_is_not_unicode_is_refused():
    tokenizer = with_template("before it {{ messages[0].content }}")
    text = b"caf\xe9".decode("utf-8", errors="surrogateescape")
    with pytest.raises(UserError, match="character 3"):
        tokenizer.encode(text)
    with pytest.raises(UserError, match="the message is not valid Unicode at character 3"):
        tokenizer.encode_chat([{"role": "user", "content": text}])


def test_model_without_template_suggests_raw():
    with pytest.raises(UserError, match="--raw"):
        with_template(None).render_chat(CHATS[0])


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for m in messages %}", "endfor"),
        ("{{ raise_exception('only\nusers') }}", "only users"),
        ("{{ messages[0].picture.url }}", "picture"),
        ("{{ messages[0].content + 1 }}", "str"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ messages.append(1) }}", "unsafe|not safely callable"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "nested"),
        ("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "recursion"),
        ("{% set x = dict.update(messages[0], {'content': 'no'}) %}", "update"),
        ("{% set ns = namespace(a=1) %}{% set ns.__class__ = 5 %}", "__class__"),
        ("{{ 'x' * 10**15 }}", "MemoryError"),
    ],
)
def test_failing_template_is_one_line(template, reason):
    with pytest.raises(UserError, match=reason) as caught:
        with_template(template).render_chat(CHATS[0])
    assert "\n" not in str(caught.value)


def test_empty_chat_is_refused():
    with pytest.raises(UserError, match="empty"):
        with_template("hello").render_chat([])
