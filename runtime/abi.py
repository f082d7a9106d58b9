"""The interface of a compiled module: what the compiler defines and the runtime calls.

    reset(sequences: i64, capacity: i64)
    prefill     (tokens: 1xTxi64, start: 1xi64, sequence: i64, past: i64) -> 1xVxf32, 1x1xi64
    decode      (tokens: 1x1xi64, start: 1xi64, sequence: i64, past: i64) -> 1xVxf32, 1x1xi64
    decode_batch(tokens: Bx1xi64, start: Bxi64, sequence: i64, past: i64) -> BxVxf32, Bx1xi64

T and B are at least 2. `reset` allocates the KV cache for so many sequences of so many token
columns. The others run tokens of sequences `sequence` to `sequence + B - 1` in columns `past` to
`past + T - 1`, given that the columns before hold tokens. They return the logits after the last one
and the first token whose logit is the largest, -1 if that is NaN or infinite. Sequence b counts its
columns from `start[b]` on.
"""

RESET = "reset"
PREFILL = "prefill"
DECODE = "decode"
DECODE_BATCH = "decode_batch"

PARAMETER_SCOPE = "model"
