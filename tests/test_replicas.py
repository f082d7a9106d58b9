"""Replicas of a model share out what it is asked, and say the same."""

import pytest

import llmc.runtime
from llmc.runtime.errors import UserError
from tests.ranked_bundle import PIECE, continued, write_ranked_bundle

PROMPTS = ["the cat in the hat", "one", "12 and 12"]


@pytest.fixture(scope="module")
def model(ranked_bundle):
    return llmc.runtime.load(ranked_bundle, local=True, threads=1)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas") / "bundle"
    write_ranked_bundle(folder, replicas=2)
    return llmc.runtime.load(folder, local=True, threads=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 3.0, "top_k": 8, "seed": 5},
        {"temperature": 3e4, "repetition_penalty": 1.1, "seed": 5},  # which needs all logits
    ],
    ids=["greedy", "top", "logits"],
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_batch_says_what_it_says_without_replicas(model, replicas, count, options):
    prompts = PROMPTS[:count]
    alone, shared = (
        [
            result.token_ids
            # Raw, for it is the last token that tells one sequence from another.
            for result in each.generate_batch(prompts, raw=True, max_new_tokens=6, **options)
        ]
        for each in (model, replicas)
    )
    assert alone == shared
    assert len({tuple(ids) for ids in alone}) == count


def test_each_replica_has_its_own_sequences(replicas):
    engine, communicator = replicas.engine, replicas.communicator
    for sequences, mine in ((1, 1), (2, 1), (3, 2)):
        engine.reset(sequences, 8)
        before = communicator.moved
        engine.decode([5] * sequences, 0, [0] * sequences)
        # A sum of a float and a row of logits for each, of which a rank sends 2/2 and 1/2.
        assert communicator.moved - before == mine * (4 + 4 * PIECE)


def test_what_has_no_room_is_refused_before_a_replica_is_told(replicas):
    engine = replicas.engine
    engine.reset(3, 8)
    with pytest.raises(UserError, match="room for 8 columns"):
        engine.decode([5] * 3, 8, [0] * 3)
    with pytest.raises(UserError, match="room for 3 sequences"):
        engine.prefill([7], 0, sequence=3)
    assert engine.prefill([7, 9], 0, sequence=2).best == continued([7, 9], 1)


def test_one_sequence_is_run_while_the_others_rest(replicas):
    result = replicas.generate(PROMPTS[0], max_new_tokens=9)
    assert result.token_ids == continued(result.prompt_token_ids, 9)


def test_a_prompt_is_run_where_its_sequence_is(replicas):
    engine = replicas.engine
    engine.reset(3, 8)
    for sequence in range(3):
        output = engine.prefill([7, 9], 0, sequence)
        assert output.best == continued([7, 9], 1)
        assert output.logits.argmax(axis=1).tolist() == output.best
