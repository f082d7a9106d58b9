"""The torch twins of the llmc dialect's operations.

Each is a `torch.library` custom operation that torch.export keeps whole, so that torch-mlir hands
it on by name and the importer can turn it into the llmc operation of that name. The bodies say in
PyTorch what `reference` of that operation says in numpy; the tests hold the two together.
"""

import torch
from torch import Tensor
from torch.library import custom_op

NAMESPACE = "llmc"


@custom_op(f"{NAMESPACE}::linear", mutates_args=())
def linear(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> Tensor:
    """`x [..., K] @ weight [N, K]^T + bias [N]`. `transposed`: the weight is stored `[K, N]`."""
    return torch.nn.functional.linear(x, weight.T if transposed else weight, bias)


@linear.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[1 if transposed else 0]))


@custom_op(f"{NAMESPACE}::embedding", mutates_args=())
def embedding(ids: Tensor, table: Tensor) -> Tensor:
    """The rows of `table [V, K]` that `ids [...]`, of int64, name: `[..., K]`."""
    return torch.nn.functional.embedding(ids, table)


@embedding.register_fake
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table.new_empty((*ids.shape, table.shape[1]))


@custom_op(f"{NAMESPACE}::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, offset: float) -> Tensor:
    """`x / sqrt(mean(x^2) + epsilon) * (offset + weight)` over the last dimension.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return x * scale * (offset + weight)


@rms_norm.register_fake
def _(x: Tensor, weight: Tensor, epsilon: float, offset: float) -> Tensor:
    return torch.empty_like(x)


@custom_op(f"{NAMESPACE}::layer_norm", mutates_args=())
def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """`(x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias` over the last dimension.

    Ba et al., "Layer Normalization", 2016.
    """
    centred = x - x.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + epsilon)
    scaled = normed if weight is None else normed * weight
    return scaled if bias is None else scaled + bias


@layer_norm.register_fake
def _(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    return torch.empty_like(x)


@custom_op(f"{NAMESPACE}::rotary", mutates_args=())
def rotary(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotates the first R of D channels of `x [B, H, T, D]` by tables `[B or 1, T, R]`.

    The members of pair i, which columns i and i + R/2 of the tables turn, are channels i and i +
    R/2; those that are `interleaved` are channels 2i and 2i + 1. Su et al., "RoFormer", 2021.
    """
    width = cos.shape[-1]
    rotated, kept = x[..., :width], x[..., width:]
    pairs = rotated.unflatten(-1, (-1, 2)) if interleaved else rotated.unflatten(-1, (2, -1)).mT
    low, high = pairs.unbind(-1)
    (low_cos, high_cos), (low_sin, high_sin) = (t.unsqueeze(1).chunk(2, -1) for t in (cos, sin))
    turned = low * low_cos - high * low_sin, high * high_cos + low * high_sin
    rotated = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((rotated, kept), dim=-1)


@rotary.register_fake
def _(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    return torch.empty_like(x)


@custom_op(f"{NAMESPACE}::attention", mutates_args=())
def attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: int, softcap: float
) -> Tensor:
    """Causal attention of `query [B, H, T, D]` over `key [B, Hkv, T, D]`, `value [B, Hkv, T, E]`.

    H is a multiple of Hkv (grouped heads). A row sees itself and the `window - 1` tokens before it
    (`window` 0: all of them). `softcap` c > 0 bends scores to `c * tanh(score / c)`.
    """
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-1, -2) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    row = torch.arange(query.shape[2])[:, None]
    column = torch.arange(key.shape[2])[None, :]
    hidden = column > row
    if window > 0:
        hidden = hidden | (column <= row - window)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ value


@attention.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: int, softcap: float
) -> Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


@custom_op(f"{NAMESPACE}::expert_linear", mutates_args=())
def expert_linear(
    x: Tensor, expert: Tensor, weight: Tensor, top_k: int, transposed: bool
) -> Tensor:
    """Rows of `x [R, K]`, each through `top_k` of the matrices `weight [E, N, K]`.

    Row r of the result `[R * top_k, N]` is row `r // top_k` of x times the transpose of the matrix
    `expert[r]`, an int64 index. `transposed`: the matrices are stored `[E, K, N]`.
    """
    rows, matrices = x.repeat_interleave(top_k, dim=0), weight if transposed else weight.mT
    return torch.bmm(rows.unsqueeze(1), matrices[expert]).squeeze(1)


@expert_linear.register_fake
def _(x: Tensor, expert: Tensor, weight: Tensor, top_k: int, transposed: bool) -> Tensor:
    return x.new_empty((x.shape[0] * top_k, weight.shape[2 if transposed else 1]))


@custom_op(f"{NAMESPACE}::route", mutates_args=())
def route(logits: Tensor, count: int, normalised: bool) -> tuple[Tensor, Tensor]:
    """The `count` largest of the softmax of each row of `logits [R, E]`, and their places, int64.

    `normalised`: they are scaled to a sum of 1.
    """
    weights, experts = torch.topk(logits.softmax(-1), count, dim=-1)
    return weights / weights.sum(-1, keepdim=True) if normalised else weights, experts


@route.register_fake
def _(logits: Tensor, count: int, normalised: bool) -> tuple[Tensor, Tensor]:
    shape = (logits.shape[0], count)
    return logits.new_empty(shape), logits.new_empty(shape, dtype=torch.int64)


@custom_op(f"{NAMESPACE}::scored_route", mutates_args=())
def scored_route(
    logits: Tensor,
    bias: Tensor | None,
    count: int,
    sigmoid: bool,
    normalised: bool,
    scale: float,
    groups: int,
    kept_groups: int,
    best: int,
) -> tuple[Tensor, Tensor]:
    """Of each row of `logits [R, E]` the scores and places of `count` experts.

    They have the largest sum of score and `bias [E]`. Scores are the softmax of the row, or the
    `sigmoid` of each; `normalised`: those returned are scaled to a sum of 1; then all by `scale`.
    Of as many `groups`, equal and in order, the `kept_groups` whose `best` largest sums are
    together largest have them all.
    """
    scores = logits.sigmoid() if sigmoid else logits.softmax(-1)
    sums = scores if bias is None else scores + bias
    grouped = sums.unflatten(1, (groups, -1))
    totals = grouped.topk(best, dim=-1).values.sum(-1)
    order = torch.argsort(totals, dim=-1, descending=True, stable=True)
    left_out = torch.zeros_like(totals, dtype=torch.bool).scatter(1, order[:, kept_groups:], True)
    limited = grouped.masked_fill(left_out.unsqueeze(-1), -torch.inf).flatten(1)
    experts = torch.argsort(limited, dim=-1, descending=True, stable=True)[:, :count]
    weights = scores.gather(-1, experts)
    weights = weights / weights.sum(-1, keepdim=True) if normalised else weights
    return weights * scale, experts


@scored_route.register_fake
def _(
    logits: Tensor,
    bias: Tensor | None,
    count: int,
    sigmoid: bool,
    normalised: bool,
    scale: float,
    groups: int,
    kept_groups: int,
    best: int,
) -> tuple[Tensor, Tensor]:
    shape = (logits.shape[0], count)
    return logits.new_empty(shape), logits.new_empty(shape, dtype=torch.int64)


@custom_op(f"{NAMESPACE}::top_k", mutates_args=())
def top_k(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest numbers of each row of `x [R, N]`, and their places, int64."""
    order = torch.argsort(x, dim=-1, descending=True, stable=True)[:, :count]
    return x.gather(-1, order), order


@top_k.register_fake
def _(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    shape = (x.shape[0], count)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


@custom_op(f"{NAMESPACE}::combine_experts", mutates_args=())
def combine_experts(y: Tensor, weights: Tensor) -> Tensor:
    """Row r of the result `[R, N]`: the sum of `weights[r, c] * y[r * C + c]`, C numbers of them.

    `y [R * C, N]`, `weights [R, C]`.
    """
    return (y.view(*weights.shape, -1) * weights.unsqueeze(-1)).sum(1)


@combine_experts.register_fake
def _(y: Tensor, weights: Tensor) -> Tensor:
    return y.new_empty((weights.shape[0], y.shape[1]))


@custom_op(f"{NAMESPACE}::layer", mutates_args=())
def layer(hidden: Tensor, extras: list[Tensor], kind: int) -> Tensor:
    """Stands for a call of a decoder layer, an instance of layer kind `kind`.

    Only its shape matters: the importer replaces it with a call of the kind's function.
    """
    return hidden.clone()


@layer.register_fake
def _(hidden: Tensor, extras: list[Tensor], kind: int) -> Tensor:
    return torch.empty_like(hidden)
