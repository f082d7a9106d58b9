"""Generation reads no more from the device than it needs, and chooses what it should."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import llmc.runtime
from llmc.frontend.compile import compile_model
from llmc.frontend.options import CompileOptions
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import abi, generation
from llmc.runtime.abi import CANDIDATES, UNDECIDED
from llmc.runtime.archive import map_archive
from llmc.runtime.errors import UserError
from llmc.runtime.generation import GenerationOptions, _Writer, generate, generate_batch
from llmc.runtime.manifest import MANIFEST, PARAMETERS
from llmc.runtime.queued_steps import QueuedSteps
from llmc.runtime.runner import Output
from llmc.runtime.sampling import SamplingOptions
from llmc.runtime.tokenizer import Tokenizer
from tests.in_memory import as_loaded
from tests.sample_tokenizers import NO_FACTS, byte_fallback, ids_of
from tests.tiny_models import tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")

PROMPTS = ["the cat in the hat", "12 and 12", "one"]


@pytest.fixture(scope="module")
def model(endless_bundle):
    return llmc.runtime.load(endless_bundle)


@pytest.fixture(scope="module")
def screened(tmp_path_factory):
    """A model of blocks, of whose large output head greedy steps read but a part."""
    config = tiny_config("llama")
    config.vocab_size = 4096
    folder = tmp_path_factory.mktemp("screened") / "bundle"
    compile_model(as_loaded(tiny_model(config)), CompileOptions(dtype="q8_0"), folder)
    return llmc.runtime.load(folder)


@pytest.fixture(scope="module")
def tied(endless_bundle, tmp_path_factory):
    """A model to which all tokens are as likely as any: the rows of its head are its first."""
    folder = tmp_path_factory.mktemp("tied") / "bundle"
    shutil.copytree(endless_bundle, folder)
    archive = folder / PARAMETERS
    whole, head = archive.read_bytes(), dict(map_archive(archive).items())["lm_head.weight"]
    stored = bytes(head.file_view)
    inputs = tiny_config("llama").hidden_size
    panels = np.frombuffer(stored, np.float32).reshape(-1, inputs, CPUTarget().columns)
    alike = np.broadcast_to(panels[:1, :, :1], panels.shape)
    archive.write_bytes(whole.replace(stored, alike.tobytes()))
    return llmc.runtime.load(folder)


@pytest.fixture
def no_logits(monkeypatch):
    def read(output: Output) -> np.ndarray:
        raise AssertionError("the logits were read")

    monkeypatch.setattr(Output, "logits", property(read))


def greedy_by_logits(model, prompt: str, count: int) -> list[int]:
    ids = model.encode(prompt)
    for _ in range(count):
        ids.append(int(model.logits(ids).argmax()))
    return ids[-count:]


@pytest.mark.usefixtures("no_logits")
def test_greedy_text_needs_no_logits(model):
    assert len(model.generate(PROMPTS[0], max_new_tokens=5).token_ids) == 5
    for result in model.generate_batch(PROMPTS, max_new_tokens=5):
        assert len(result.token_ids) == 5


@pytest.mark.usefixtures("no_logits")
def test_top_k_needs_no_logits(model):
    options = {"temperature": 1.5, "top_k": 20, "seed": 1, "max_new_tokens": 8}
    assert len(model.generate(PROMPTS[0], **options).token_ids) == 8
    assert len(model.generate_batch(PROMPTS, **options)) == len(PROMPTS)


@pytest.mark.parametrize("filters", [{}, {"top_p": 0.8}, {"min_p": 0.2}], ids=str)
@pytest.mark.parametrize("head", ["model", "screened", "tied"])
def test_modules_draw_what_all_logits_give(head, filters, request, monkeypatch):
    """Drawn by the module, by the host from the largest logits, and by it from all of them."""
    model = request.getfixturevalue(head)
    options = {"temperature": 1.5, "top_k": 20, "seed": 1, "max_new_tokens": 12, **filters}

    def texts() -> list[list[int]]:
        alone, together = model.generate(PROMPTS[0], **options), PROMPTS
        return [each.token_ids for each in (alone, *model.generate_batch(together, **options))]

    by_module = texts()
    monkeypatch.setattr(type(model.engine), "sample", lambda *_: [])
    by_largest = texts()
    monkeypatch.setattr(SamplingOptions, "candidates", None)
    assert by_module == by_largest == texts()


@pytest.mark.parametrize("sequences", [1, 3])
def test_several_drawn_steps_are_those_of_single_ones(model, sequences):
    engine, starts = model.engine, [0] * sequences
    random = np.random.default_rng(0).random((7, sequences)).tolist()

    def run(counts: list[int]) -> list[list[int]]:
        engine.reset(sequences, 8)
        steps = [list(range(5, 5 + sequences))]
        for count in counts:
            past = len(steps) - 1
            drawing = 20, [1.5, 0.9, 0.0], random[past : past + count]
            steps += engine.sample(steps[-1], past, starts, *drawing)
        return steps

    assert run([2, 5]) == run([7]) == run([1] * 7)
    assert len({tuple(tokens) for tokens in run([7])}) > 5


@pytest.mark.parametrize(
    "options",
    [(2.0, 1.0, 0.0), (2.0, 0.6, 0.0), (2.0, 0.9, 0.0), (2.0, 1.0, 0.1), (3.0, 0.97, 0.1)],
)
def test_all_tokens_are_drawn_from(model, options):
    """First the most likely ones in their order, then the others in theirs."""
    temperature, top_p, min_p = options
    model.engine.reset(1, 4)
    logits = model.engine.decode([5], 0, [0]).logits[0].astype(np.float64)
    order = np.argsort(-logits, kind="stable")
    weights = np.exp((logits[order] - logits[order[0]]) / temperature)
    likely = np.flatnonzero(
        (np.cumsum(weights) - weights < top_p * weights.sum()) & (weights >= min_p)
    )
    rest = likely[CANDIDATES:]
    likely = np.concatenate([likely[:CANDIDATES], rest[np.argsort(order[rest])]])
    sums = np.cumsum(weights[likely])
    found, expected = [], []
    for number in np.random.default_rng(0).random(200):
        found += model.engine.sample([5], 0, [0], 0, list(options), [[float(number)]])
        expected.append([order[likely[(sums <= number * sums[-1]).sum()]]])
    # But for numbers so near a border that a sum in float32 is on the other side of it.
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 1


def test_sequences_draw_from_all_tokens_of_their_own(model):
    engine, starts, options = model.engine, [0] * 3, [2.0, 0.9, 0.0]
    random = [0.2, 0.999, 0.9]

    def draw(tokens: list[int], numbers: list[float]) -> list[int]:
        engine.reset(len(tokens), 4)
        (drawn,) = engine.sample(tokens, 0, starts[: len(tokens)], 0, options, [numbers])
        return drawn

    alone = [draw([token], [number]) for token, number in zip([5, 6, 7], random, strict=True)]
    assert [draw([5, 6, 7], random)] == [[token for (token,) in alone]]


def test_equal_tokens_are_drawn_alike(tied):
    """The most likely ones cannot be told apart from the others: they are the first."""
    tied.engine.reset(1, 4)
    vocabulary = tied.engine.decode([5], 0, [0]).logits.shape[1]
    for token in (0, CANDIDATES - 1, CANDIDATES, vocabulary - 1):
        number = (token + 0.5) / vocabulary
        assert tied.engine.sample([5], 0, [0], 0, [1.0, 1.0, 0.0], [[number]]) == [[token]]


def test_what_ties_with_the_last_token_is_left_to_the_host(tied):
    tied.engine.reset(1, 4)
    assert tied.engine.sample([5], 0, [0], 3, [1.0, 1.0, 0.0], [[0.5]]) == [[UNDECIDED]]
    assert tied.engine.sample([5], 0, [0], 10**6, [1.0, 1.0, 0.0], [[0.0]]) == [[0]]


def test_a_step_takes_other_tokens_than_the_module_chose(model):
    engine, ids = model.engine, model.encode(PROMPTS[0])
    for token in (5, 9):
        engine.reset(1, len(ids) + 1)
        engine.prefill(ids, 0).best[0] = token  # what the engine knows is its own
        logits = engine.decode([token], len(ids), [0]).logits[0]
        np.testing.assert_allclose(logits, model.logits([*ids, token]), atol=1e-4)


@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("head", ["model", "screened"])
def test_several_greedy_steps_are_those_of_single_ones(head, sequences, request):
    engine, starts = request.getfixturevalue(head).engine, [0] * sequences

    def run(counts: list[int]) -> list[list[int]]:
        engine.reset(sequences, 8)
        steps = [list(range(5, 5 + sequences))]
        for count in counts:
            steps += engine.greedy(steps[-1], len(steps) - 1, starts, count)
        return steps

    engine.reset(sequences, 8)
    alone = [list(range(5, 5 + sequences))]
    for past in range(7):
        alone.append(engine.decode(alone[-1], past, starts).best)
    assert run([2, 5]) == run([7]) == run([1] * 7) == alone


def test_a_single_greedy_step_computes_no_logits(model, monkeypatch):
    model.engine.reset(1, 4)
    monkeypatch.setattr(type(model.engine), "decode", None)  # which returns them
    assert len(model.engine.greedy([5], 0, [0], 1)) == 1


def test_fewer_steps_are_queued_where_some_were_in_vain():
    queued, asked = QueuedSteps(), []

    def steps_before(bad: int) -> int:
        def call(count: int) -> list[list[int]]:
            asked.append(count)
            return [[number] for number in range(count)]

        good, made = queued.run_while(lambda step: step[0] < bad, call, 100)
        assert made == asked[-1]
        return len(good)

    steps = [steps_before(bad) for bad in (13, 3, 13, 13, 13, 0, 13)]
    assert steps == [1, 3, 3, 6, 12, 0, 1]
    assert asked == [1, 12, 3, 6, 12, 12, 1]


@pytest.mark.parametrize("end", [2, 3, 4, 9])
def test_what_is_computed_after_the_end_is_not_said(model, end, monkeypatch):
    whole = model.generate(PROMPTS[0], max_new_tokens=12).token_ids
    eos = (whole[end],)
    monkeypatch.setattr(type(model), "_eos", eos)
    result = model.generate(PROMPTS[0], max_new_tokens=12)
    assert result.token_ids == whole[: whole.index(eos[0]) + 1]
    assert result.finish_reason == "stop"


@pytest.fixture
def positions(model, monkeypatch):
    """How many positions each sequence of a step has by its end."""
    reached = []

    def recorded(count, run, tokens, past, starts, *more):
        reached.extend(past + count(*more) - start for start in starts)
        return run(tokens, past, starts, *more)

    counts = {
        "decode": lambda: 1,
        "greedy": lambda count: count,
        "sample": lambda _top_k, _options, random: len(random),
    }
    for name, count in counts.items():
        run = partial(recorded, count, getattr(model.engine, name))
        monkeypatch.setattr(model.engine, name, run)
    return reached


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 9}])
@pytest.mark.parametrize("end", [None, 4])
def test_no_sequence_of_a_batch_leaves_the_context(model, positions, sampling, end):
    context, prompts = 24, [[5] * 24, [6] * 20, [7, 8], [9] * 23]
    sampling = SamplingOptions(**sampling, seed=1)
    options = GenerationOptions(max_new_tokens=40, sampling=sampling)

    def alone(ids: list[int], eos: tuple[int, ...]) -> list[int]:
        claim = model.engine.reset(1, context)
        *_, (_, result) = generate(
            model.engine, claim, model.tokenizer, eos, ids, 0, context, options
        )
        return result.token_ids

    eos = () if end is None else (alone(prompts[2], ())[end],)
    expected = [alone(ids, eos) for ids in prompts]
    results = generate_batch(model.engine, model.tokenizer, eos, prompts, context, options)
    assert [result.token_ids for result in results] == expected
    assert max(positions) <= context


def test_largest_logits_are_those_of_all(model):
    model.engine.reset(1, 4)
    output = model.engine.prefill([1, 2, 3], 0)
    tokens, values = output.top(7, 0)
    expected = np.argsort(-output.logits[0], kind="stable")[:7]
    assert tokens == expected.tolist()
    assert values == output.logits[0, expected].tolist()
    everything, _ = output.top(10**9, 0)
    assert sorted(everything) == list(range(output.logits.shape[1]))


def test_module_chooses_the_largest_logit(model):
    expected = [greedy_by_logits(model, prompt, 6) for prompt in PROMPTS]
    one_by_one = [model.generate(prompt, max_new_tokens=6).token_ids for prompt in PROMPTS]
    together = [result.token_ids for result in model.generate_batch(PROMPTS, max_new_tokens=6)]
    assert one_by_one == together == expected


def test_sampling_by_logits_agrees_where_the_distribution_has_one_token(model):
    greedy = model.generate(PROMPTS[0], max_new_tokens=6)
    sampled = model.generate(PROMPTS[0], max_new_tokens=6, temperature=1.0, top_k=1)
    assert sampled.token_ids == greedy.token_ids
    assert sampled.text == greedy.text


def test_what_was_computed_outlives_the_model(endless_bundle):
    engine = llmc.runtime.load(endless_bundle).engine
    engine.reset(1, 4)
    output = engine.prefill([1, 2, 3], 0)
    del engine
    assert output.best == output.logits.argmax(axis=1).tolist()


def test_numbers_of_numpy_are_numbers(model):
    options = {"max_new_tokens": 4, "temperature": 0.5, "top_k": 4, "seed": 3}
    given = {name: np.array(value)[()] for name, value in options.items()}
    assert model.generate("one", **given).token_ids == model.generate("one", **options).token_ids


def test_threads_are_a_number(endless_bundle):
    llmc.runtime.load(endless_bundle, threads=np.int64(1))
    for threads in ("2", 1.5, 0):
        with pytest.raises(UserError, match="threads must be"):
            llmc.runtime.load(endless_bundle, threads=threads)


def test_a_stop_string_that_only_the_end_shows_is_why_the_text_ends():
    """A byte's text is open until it is certain that no more bytes of a character follow."""
    tokenizer = Tokenizer(byte_fallback(), NO_FACTS)
    writer = _Writer([5], tokenizer, (), GenerationOptions(max_new_tokens=1, stop=("A",)))
    (token,) = ids_of(tokenizer, f"<0x{ord('A'):02X}>")
    assert (writer.write(token, 8), writer.result.finish_reason) == ("", "stop")


def test_a_module_that_the_manifest_does_not_describe_is_refused(endless_bundle, tmp_path):
    bundle = tmp_path / "bundle"
    shutil.copytree(endless_bundle, bundle)
    manifest = json.loads((bundle / MANIFEST).read_text())
    manifest["model"]["vocab_size"] += 1
    (bundle / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="compile it again"):
        llmc.runtime.load(bundle)


@pytest.mark.parametrize("name", abi.NEEDED)
def test_a_module_without_a_function_that_is_called_is_refused(endless_bundle, monkeypatch, name):
    monkeypatch.setattr(abi, "FUNCTIONS", tuple({*abi.FUNCTIONS} - {name}))
    with pytest.raises(UserError, match=f"lacks {name}: compile it again"):
        llmc.runtime.load(endless_bundle)


def test_threads_take_turns(model):
    """Each is answered as if it were alone."""
    expected = [model.generate(prompt, max_new_tokens=6).token_ids for prompt in PROMPTS]

    def ask(number: int) -> list[list[int]]:
        if number % 2:
            return [model.generate(prompt, max_new_tokens=6).token_ids for prompt in PROMPTS]
        return [each.token_ids for each in model.generate_batch(PROMPTS, max_new_tokens=6)]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(16))) == [expected] * 16


def test_a_thread_that_streams_is_told_of_another_that_takes_the_cache(model):
    steps = model.stream(PROMPTS[0], max_new_tokens=20)
    next(steps)
    with ThreadPoolExecutor(1) as other:
        other.submit(model.generate, PROMPTS[1], max_new_tokens=2).result()
    with pytest.raises(UserError, match="another generation took"):
        list(steps)


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 2.5},
        {"temperature": -1},
        {"temperature": 10**400},
        {"stop": 5},
        {"stop": ["a", 5]},
        {"tokens": 5},
        {"sampling": SamplingOptions()},
    ],
)
def test_options_are_refused_where_there_are_no_prompts_too(model, options):
    for prompts in ([], PROMPTS):
        with pytest.raises(UserError, match=next(iter(options))):
            model.generate_batch(prompts, **options)


def test_a_batch_is_of_a_list(model):
    with pytest.raises(UserError, match="list of prompts"):
        model.generate_batch(PROMPTS[0])


def test_the_time_of_who_reads_a_stream_is_not_that_of_decoding(model, monkeypatch):
    seconds = 0.0

    def passing() -> float:
        nonlocal seconds
        seconds += 1e-3
        return seconds

    monkeypatch.setattr(generation.time, "perf_counter", passing)
    results = []
    for _, result in model.stream(PROMPTS[0], max_new_tokens=5):
        results.append(result)
        seconds += 1e6
    assert len(results[-1].token_ids) == 5
    assert 0 < results[-1].decode_s < 1
