"""Routers are recognised by trial, and choose the experts that their torch twins choose."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import iree.runtime as rt
import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from llmc.frontend import torch_ops
from llmc.frontend.interception import llmc_operations
from tests.compiled import load
from tests.tiny_models import tiny_config, tiny_model


@pytest.mark.parametrize("normalised", [False, True])
def test_routers_are_recognised(normalised):
    config = tiny_config("qwen3_moe")
    config.update({"hidden_size": 1024, "num_experts": 32, "num_experts_per_tok": 8})
    config.norm_topk_prob = normalised
    model = tiny_model(config)
    router, x = model.model.layers[0].mlp.gate, torch.randn(5, 1024) / 16
    exact = router(x)
    with llmc_operations(model):
        assert "forward" in vars(router)
        found = router(x)
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("glm4_moe", (50, 64)),
        ("ernie4_5_moe", (50, 64)),
        ("minimax_m2", (50, 64)),
        ("afmoe", (1, 50, 64)),
    ],
)
def test_routers_with_a_bias_are_recognised(family, shape):
    """A bias that is a buffer, one in a module of its own, and two that the caller gives.

    Of the last the matrix is in a module of its own, and it wants tokens of sequences.
    """
    router, given = scored_router(family)
    assert_routes_alike(router, torch.randn(shape) / 8, given)


def assert_routes_alike(router: torch.nn.Module, x: Tensor, given: tuple[Tensor, ...]) -> None:
    """An operation is in the router's place, and gives what it gives, in any order."""
    logits, weights, experts = router(x, *given)
    with llmc_operations(router):
        assert "forward" in vars(router)
        our_logits, our_weights, our_experts = router(x, *given)
    torch.testing.assert_close(our_logits, logits)
    order, ours = experts.argsort(-1), our_experts.argsort(-1)
    assert (our_experts.gather(-1, ours) == experts.gather(-1, order)).all()
    torch.testing.assert_close(our_weights.gather(-1, ours), weights.gather(-1, order))


def router_of(config: PreTrainedConfig) -> torch.nn.Module:
    """The router of a model of `config`, alone."""
    namespace = sys.modules[AutoModelForCausalLM._model_mapping[type(config)].__module__]
    name = next(name for name in vars(namespace) if name.endswith("Router"))
    return getattr(namespace, name)(config).requires_grad_(False)


def scored_router(family: str) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    """A router of 32 experts with a random bias, and this as an argument where it takes one."""
    config = AutoConfig.for_model(
        family,
        hidden_size=64,
        num_local_experts=32,
        num_experts=32,
        num_experts_per_tok=4,
        routed_scaling_factor=2.5,
        route_scale=2.5,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
    )
    router = router_of(config)
    bias = torch.randn(32) / 8
    weight, *more = router.parameters()
    weight.normal_(0, 1)
    own = [*router.buffers(), *more]
    for tensor in own:
        tensor.copy_(bias)
    return router, () if own else (bias,)


@pytest.mark.parametrize(
    ("family", "scale"), [("deepseek_v3", 2.5), ("deepseek_v2", 16.0), ("deepseek_v2", 1.0)]
)
def test_routers_that_limit_groups_are_recognised(family, scale):
    config = tiny_config(family)
    config.update(dict.fromkeys(("n_routed_experts", "num_experts", "num_local_experts"), 24))
    config.update({"n_group": 4, "topk_group": 2, "num_experts_per_tok": 5})
    config.routed_scaling_factor = scale
    router = router_of(config)
    for tensor in (*router.parameters(), *router.buffers()):
        tensor.normal_(0, 1 / 8)
    x = torch.randn(50, config.hidden_size)
    assert_routes_alike(router, x, ())


def test_a_router_of_another_kind_is_left_alone():
    router, _ = scored_router("glm4_moe")
    theirs = type(router).forward

    class OtherRouter(type(router)):
        """Its weights are squared."""

        def forward(self, hidden: Tensor) -> tuple[Tensor, ...]:
            logits, weights, experts = theirs(self, hidden)
            return logits, weights**2, experts

    router.__class__ = OtherRouter
    with llmc_operations(router):
        assert "forward" not in vars(router)


@dataclass(frozen=True)
class Routing:
    """Rows of logits for `experts`, of which each row chooses some."""

    experts: int
    chosen: int
    normalised: bool

    def types(self, rows: str) -> tuple[str, str]:
        """Those of the logits, and of the weights and experts."""
        results = f"tensor<{rows}x{self.chosen}xf32>, tensor<{rows}x{self.chosen}xi64>"
        return f"tensor<{rows}x{self.experts}xf32>", results

    def check(self, found: Iterable[rt.DeviceArray], weights: Tensor, experts: Tensor) -> None:
        own, chosen = (torch.from_numpy(result.to_host()) for result in found)
        # The error of e to a power, and of a sum.
        size = self.experts * 2.0**-24 + 2.0**-20
        assert ((own - weights).abs() <= size * weights).all()
        assert (chosen == experts).all()

    def function(self, name: str, rows: str) -> str:
        x, results = self.types(rows)
        return f"""
          func.func @{name}(%x: {x}) -> ({results}) {{
            %w, %e = "llmc.route"(%x) {{normalised = {int(self.normalised)} : i64}}
              : ({x}) -> ({results})
            return %w, %e : {results}
          }}"""


@pytest.mark.parametrize(
    "routing",
    [
        Routing(128, 8, True),
        Routing(60, 4, False),
        Routing(37, 3, True),  # no multiple of a register
        Routing(5, 5, False),
        Routing(1, 1, True),
    ],
    ids=str,
)
def test_route(routing, tmp_path):
    logits = torch.randn(7, routing.experts, generator=torch.Generator().manual_seed(0)) * 3
    logits[3], logits[4, 1:] = 1.0, -torch.inf  # the first of those that are alike
    expected, _ = torch_ops.route(logits.double(), routing.chosen, routing.normalised)
    order = logits.argsort(dim=1, descending=True, stable=True)[:, : routing.chosen]
    text = routing.function("any_rows", "?") + routing.function("seven_rows", "7")
    find = load(text, (), {}, tmp_path)
    for name in ("any_rows", "seven_rows"):
        routing.check(find(name)(logits.numpy()), expected, order)


@dataclass(frozen=True)
class ScoredRouting(Routing):
    """With a bias, the second of two that are stacked, or one alone; or without one.

    `groups` are how many, how many of them count, and how many numbers of each are added up.
    """

    sigmoid: bool
    scale: float
    stacked: bool = False
    biased: bool = True
    groups: tuple[int, int, int] = (1, 1, 1)

    @property
    def bias(self) -> str:
        length = f"{self.experts}xf32>"
        return f"tensor<2x{length}" if self.stacked else f"tensor<{length}"

    def function(self, name: str, rows: str) -> str:
        x, results = self.types(rows)
        vector = f"tensor<{self.experts}xf32>"
        sliced = f"""%i = arith.index_cast %layer : i64 to index
            %b = tensor.extract_slice %bias[%i, 0] [1, {self.experts}] [1, 1]
              : {self.bias} to {vector}"""
        operands = ["%x", *(["%b" if self.stacked else "%bias"] if self.biased else [])]
        types = [x, *([vector] if self.biased else [])]
        groups, kept, best = self.groups
        return f"""
          func.func @{name}(%x: {x}, %bias: {self.bias}, %layer: i64) -> ({results}) {{
            {sliced if self.stacked else ""}
            %w, %e = "llmc.scored_route"({", ".join(operands)})
              {{best = {best} : i64, groups = {groups} : i64, kept_groups = {kept} : i64,
                normalised = {int(self.normalised)} : i64,
                operandSegmentSizes = array<i32: 1, {int(self.biased)}>,
                scale = {self.scale} : f64, sigmoid = {int(self.sigmoid)} : i64}}
              : ({", ".join(types)}) -> ({results})
            return %w, %e : {results}
          }}"""


@pytest.mark.parametrize(
    "routing",
    [
        ScoredRouting(128, 8, True, sigmoid=True, scale=2.5, stacked=True),
        ScoredRouting(64, 6, True, sigmoid=False, scale=1.0, stacked=False),
        ScoredRouting(37, 3, False, sigmoid=True, scale=1.0, stacked=True),
        ScoredRouting(5, 5, False, sigmoid=False, scale=0.5, stacked=True),
        ScoredRouting(64, 6, False, sigmoid=False, scale=16.0, biased=False),
        ScoredRouting(256, 8, True, sigmoid=True, scale=2.5, stacked=True, groups=(8, 4, 2)),
        ScoredRouting(160, 6, False, sigmoid=False, scale=16.0, biased=False, groups=(8, 3, 1)),
        ScoredRouting(21, 7, True, sigmoid=True, scale=1.0, groups=(3, 1, 3)),
    ],
    ids=str,
)
def test_scored_route(routing, tmp_path):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, routing.experts, generator=generator) * 3
    bias = torch.randn(2, routing.experts, generator=generator) / 8
    logits[3], bias[1, 2:4] = 1.0, 1.0  # the first of those that are alike
    expected, experts = torch_ops.scored_route(
        logits.double(),
        bias[1].double() if routing.biased else None,
        routing.chosen,
        routing.sigmoid,
        routing.normalised,
        routing.scale,
        *routing.groups,
    )
    text = routing.function("any_rows", "?") + routing.function("seven_rows", "7")
    find = load(text, (), {}, tmp_path)
    given = bias if routing.stacked else bias[1]
    for name in ("any_rows", "seven_rows"):
        routing.check(find(name)(logits.numpy(), given.numpy(), 1), expected, experts)


@pytest.mark.parametrize(
    "routing",
    [Routing(37, 3, True), ScoredRouting(37, 3, False, sigmoid=True, scale=1.0, biased=False)],
    ids=str,
)
def test_a_row_with_nan_harms_no_other(routing, tmp_path):
    logits = np.random.default_rng(0).standard_normal((3, routing.experts)).astype(np.float32)
    route = load(routing.function("route", "?"), (), {}, tmp_path)("route")
    more = () if type(routing) is Routing else (logits[0], 0)
    expected = [result.to_host() for result in route(logits, *more)]
    logits[1] = np.nan
    weights, experts = (result.to_host() for result in route(logits, *more))
    assert ((experts >= 0) & (experts < routing.experts)).all()
    np.testing.assert_array_equal(weights[::2], expected[0][::2])
    np.testing.assert_array_equal(experts[::2], expected[1][::2])
