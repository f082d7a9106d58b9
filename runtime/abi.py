"""The interface of a compiled module: what the compiler defines and the runtime calls.

    reset(sequences: i64, capacity: i64)
    prefill     (tokens: 1xTxi64, start: 1xi64, sequence: i64, past: i64) -> 1xVxf32, 1x1xi64
    prefill_batch(tokens: BxTxi64, start: Bxi64, sequence: i64, past: i64) -> BxVxf32, Bx1xi64
    decode      (tokens: 1x1xi64, start: 1xi64, sequence: i64, past: i64) -> 1xVxf32, 1x1xi64
    decode_batch(tokens: Bx1xi64, start: Bxi64, sequence: i64, past: i64) -> BxVxf32, Bx1xi64
    greedy      (tokens: 1x1xi64, start, sequence, past, count: i64) -> Cx1xi64, 1x1xi64
    greedy_batch(tokens: Bx1xi64, start, sequence, past, count: i64) -> CxBxi64, Bx1xi64
    sampled     (tokens: 1x1xi64, start, sequence, past, top_k: i64, options: 3xf32,
                 random: Cx1xf32) -> Cx1xi64, 1x1xi64
    sampled_batch(tokens: Bx1xi64, start, sequence, past, top_k: i64, options: 3xf32,
                 random: CxBxf32) -> CxBxi64, Bx1xi64
    top_k       (logits: BxVxf32, count: i64) -> BxCxf32, BxCxi64

T is at least 2, and so is B where it is a batch's. `reset` allocates the KV cache for so many
sequences of so many token columns. `prefill` and `decode`, and those of a batch, run tokens of
sequences `sequence` to `sequence + B - 1` in columns `past` to `past + T - 1`, given that the
columns before hold tokens. They return the logits after the last one and the first token whose
logit is the largest, -1 if that is NaN or infinite. Sequence b counts its columns from `start[b]`
on. `greedy` runs `count` steps of `decode`, and `greedy_batch` of `decode_batch`, each but the
first on the tokens that the one before returned; they return all of these, and the last as the next
step takes them. `sampled` and `sampled_batch` do so on tokens drawn from the `top_k` most likely
ones, or with 0 from all, by `random` numbers from 0 to 1; `options` are temperature, top_p and
min_p, as `llmc.draw` has them. A token is -1 as in `decode`, and -2 where others are as likely as
the last of the `top_k`. `top_k` finds the `count` largest of such logits, V at most, in descending
order, and the tokens that they are of; those with the same logit are in the order of their numbers.

A module may lack any of these but `reset`, `prefill`, `decode` and `decode_batch`.
"""

RESET = "reset"
PREFILL = "prefill"
PREFILL_BATCH = "prefill_batch"
DECODE = "decode"
DECODE_BATCH = "decode_batch"
GREEDY = "greedy"
GREEDY_BATCH = "greedy_batch"
SAMPLED = "sampled"
SAMPLED_BATCH = "sampled_batch"
TOP_K = "top_k"
FUNCTIONS = (
    RESET,
    PREFILL,
    PREFILL_BATCH,
    DECODE,
    DECODE_BATCH,
    GREEDY,
    GREEDY_BATCH,
    SAMPLED,
    SAMPLED_BATCH,
    TOP_K,
)
NEEDED = (RESET, PREFILL, DECODE, DECODE_BATCH)

UNDECIDED = -2
"""The token where those that may be drawn do not tell which is, as `llmc.draw` has it."""

CANDIDATES = 256
"""How many of the most likely tokens come in order where all may be drawn."""

PARAMETER_SCOPE = "model"

MOST_STACK_BYTES = 4 * 2**20
"""The most that code on a CPU takes of a thread's stack, of which no more is there than is used."""
