"""What tokens weigh that chance chooses among: how likely each is, beside the likeliest.

The likeliest ones, the candidates, are found already; the rest are the others of all logits.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, vector

from llmc.dialects.index_notation import constant, index
from llmc.dialects.running_sums import Numbers
from llmc.dialects.top_k import goes_before


@dataclass(frozen=True)
class TokenWeights:
    """Weights of tokens of a row, 1 being that of the first candidate.

    `values` and `tokens` are the logits and the tokens of `count` candidates, in their order.
    """

    values: Numbers
    tokens: Numbers
    count: ir.Value
    temperature: ir.Value

    def of_candidate(self, place: ir.Value) -> ir.Value:
        """What the candidate at `place` weighs."""
        return self._weigh(self.values(place))

    def of_rest(self, logit: ir.Value, token: ir.Value) -> ir.Value:
        """What a token weighs, 0 for a candidate, by its logit and its number, an i64.

        Of vectors of both, what each weighs.
        """
        value, own = alike(self.values(self.last), logit), alike(self.tokens(self.last), token)
        zero = alike(constant(0.0, self.temperature.type), logit)
        return arith.select(goes_before(value, own, logit, token), self._weigh(logit), zero)

    @property
    def last(self) -> ir.Value:
        """The place of the last candidate."""
        return arith.subi(self.count, index(1))

    def _weigh(self, logit: ir.Value) -> ir.Value:
        first, temperature = (alike(x, logit) for x in (self.values(index(0)), self.temperature))
        return math.exp(arith.divf(arith.subf(logit, first), temperature))


def alike(number: ir.Value, other: ir.Value) -> ir.Value:
    """`number`, in every lane if `other` is a vector."""
    if isinstance(other.type, ir.VectorType):
        return vector.broadcast(ir.VectorType.get(other.type.shape, number.type), number)
    return number
