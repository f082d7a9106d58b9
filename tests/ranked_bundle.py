"""A bundle of two ranks, or of replicas of these, whose module is written by hand: and its text."""

from dataclasses import replace
from pathlib import Path

import iree.compiler
import iree.runtime as rt
import numpy as np

from llmc.runtime import manifest as facts
from llmc.runtime.devices import host_arch
from tests.tiny_models import CHAT_TEMPLATE, VOCAB_SIZE, tiny_tokenizer

# Each rank's part of the next token, as factors of the last token and of its column, and how many
# of the logits it computes.
FACTORS = ((5.0, 0.0), (2.0, 11.0))
PIECE = VOCAB_SIZE // 2

_MODULE = """
#vector = affine_map<(i) -> (i)>
#matrix = affine_map<(i, j) -> (i, j)>

util.global private @factors = #flow.parameter.named<"model"::"factors"> : tensor<2xf32>
func.func private @collective.all_reduce(tensor<?xf32>, i32) -> tensor<?xf32>
func.func private @collective.all_gather(tensor<?xf32>, i32) -> tensor<?xf32>

func.func private @step(%tokens: tensor<?x1xi64>, %past: i64)
    -> (tensor<?x{vocab}xf32>, tensor<?x1xi64>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %all = arith.constant 1 : i32
  %end = arith.constant {vocab}.0 : f32
  %factors = util.global.load @factors : tensor<2xf32>
  %of_token = tensor.extract %factors[%zero] : tensor<2xf32>
  %of_column = tensor.extract %factors[%one] : tensor<2xf32>
  %column = arith.sitofp %past : i64 to f32
  %count = tensor.dim %tokens, %zero : tensor<?x1xi64>
  %parts_room = tensor.empty(%count) : tensor<?xf32>
  %parts = linalg.generic {{indexing_maps = [#vector], iterator_types = ["parallel"]}}
      outs(%parts_room : tensor<?xf32>) {{
  ^bb0(%_: f32):
    %b = linalg.index 0 : index
    %token = tensor.extract %tokens[%b, %zero] : tensor<?x1xi64>
    %float = arith.sitofp %token : i64 to f32
    %product = arith.mulf %of_token, %float : f32
    %other = arith.mulf %of_column, %column : f32
    %part = arith.addf %product, %other : f32
    linalg.yield %part : f32
  }} -> tensor<?xf32>
  %sums = func.call @collective.all_reduce(%parts, %all) : (tensor<?xf32>, i32) -> tensor<?xf32>
  %piece_room = tensor.empty(%count) : tensor<{piece}x?xf32>
  %piece = linalg.generic {{indexing_maps = [#matrix], iterator_types = ["parallel", "parallel"]}}
      outs(%piece_room : tensor<{piece}x?xf32>) {{
  ^bb0(%_: f32):
    %v = linalg.index 0 : index
    %b = linalg.index 1 : index
    %sum = tensor.extract %sums[%b] : tensor<?xf32>
    %next = arith.remf %sum, %end : f32
    %first = arith.constant {first} : index
    %here = arith.addi %v, %first : index
    %here_integer = arith.index_cast %here : index to i64
    %here_float = arith.sitofp %here_integer : i64 to f32
    %distance = arith.subf %next, %here_float : f32
    %square = arith.mulf %distance, %distance : f32
    %logit = arith.negf %square : f32
    linalg.yield %logit : f32
  }} -> tensor<{piece}x?xf32>
  %flat = tensor.collapse_shape %piece [[0, 1]] : tensor<{piece}x?xf32> into tensor<?xf32>
  %whole = func.call @collective.all_gather(%flat, %all) : (tensor<?xf32>, i32) -> tensor<?xf32>
  %logits_room = tensor.empty(%count) : tensor<?x{vocab}xf32>
  %logits = linalg.generic {{indexing_maps = [#matrix], iterator_types = ["parallel", "parallel"]}}
      outs(%logits_room : tensor<?x{vocab}xf32>) {{
  ^bb0(%_: f32):
    %b = linalg.index 0 : index
    %v = linalg.index 1 : index
    %row = arith.muli %v, %count : index
    %at = arith.addi %row, %b : index
    %logit = tensor.extract %whole[%at] : tensor<?xf32>
    linalg.yield %logit : f32
  }} -> tensor<?x{vocab}xf32>
  %best_room = tensor.empty(%count) : tensor<?x1xi64>
  %best = linalg.generic {{indexing_maps = [#matrix], iterator_types = ["parallel", "parallel"]}}
      outs(%best_room : tensor<?x1xi64>) {{
  ^bb0(%_: i64):
    %b = linalg.index 0 : index
    %sum = tensor.extract %sums[%b] : tensor<?xf32>
    %next = arith.remf %sum, %end : f32
    %token = arith.fptosi %next : f32 to i64
    linalg.yield %token : i64
  }} -> tensor<?x1xi64>
  return %logits, %best : tensor<?x{vocab}xf32>, tensor<?x1xi64>
}}

func.func @reset(%sequences: i64, %capacity: i64) {{ return }}

func.func @prefill(%tokens: tensor<1x?xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64)
    -> (tensor<1x{vocab}xf32>, tensor<1x1xi64>) {{
  %one = arith.constant 1 : index
  %count = tensor.dim %tokens, %one : tensor<1x?xi64>
  %last = arith.subi %count, %one : index
  %token = tensor.extract_slice %tokens[0, %last] [1, 1] [1, 1]
    : tensor<1x?xi64> to tensor<1x1xi64>
  %offset = arith.index_cast %last : index to i64
  %column = arith.addi %past, %offset : i64
  %logits, %best = func.call @decode(%token, %start, %sequence, %column)
    : (tensor<1x1xi64>, tensor<1xi64>, i64, i64) -> (tensor<1x{vocab}xf32>, tensor<1x1xi64>)
  return %logits, %best : tensor<1x{vocab}xf32>, tensor<1x1xi64>
}}

func.func @decode(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64)
    -> (tensor<1x{vocab}xf32>, tensor<1x1xi64>) {{
  %any = tensor.cast %tokens : tensor<1x1xi64> to tensor<?x1xi64>
  %logits, %best = func.call @step(%any, %past)
    : (tensor<?x1xi64>, i64) -> (tensor<?x{vocab}xf32>, tensor<?x1xi64>)
  %row = tensor.cast %logits : tensor<?x{vocab}xf32> to tensor<1x{vocab}xf32>
  %token = tensor.cast %best : tensor<?x1xi64> to tensor<1x1xi64>
  return %row, %token : tensor<1x{vocab}xf32>, tensor<1x1xi64>
}}

func.func @decode_batch(%tokens: tensor<?x1xi64>, %start: tensor<?xi64>, %sequence: i64, %past: i64)
    -> (tensor<?x{vocab}xf32>, tensor<?x1xi64>) {{
  %logits, %best = func.call @step(%tokens, %past)
    : (tensor<?x1xi64>, i64) -> (tensor<?x{vocab}xf32>, tensor<?x1xi64>)
  return %logits, %best : tensor<?x{vocab}xf32>, tensor<?x1xi64>
}}

func.func @greedy(%tokens: tensor<1x1xi64>, %start: tensor<1xi64>, %sequence: i64, %past: i64,
    %count: i64) -> (tensor<?x1xi64>, tensor<1x1xi64>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %steps = arith.index_cast %count : i64 to index
  %room = tensor.empty(%steps) : tensor<?x1xi64>
  %found, %last = scf.for %step = %zero to %steps step %one
      iter_args(%all = %room, %token = %tokens) -> (tensor<?x1xi64>, tensor<1x1xi64>) {{
    %offset = arith.index_cast %step : index to i64
    %column = arith.addi %past, %offset : i64
    %logits, %best = func.call @decode(%token, %start, %sequence, %column)
      : (tensor<1x1xi64>, tensor<1xi64>, i64, i64) -> (tensor<1x{vocab}xf32>, tensor<1x1xi64>)
    %more = tensor.insert_slice %best into %all[%step, 0] [1, 1] [1, 1]
      : tensor<1x1xi64> into tensor<?x1xi64>
    scf.yield %more, %best : tensor<?x1xi64>, tensor<1x1xi64>
  }}
  return %found, %last : tensor<?x1xi64>, tensor<1x1xi64>
}}
"""


def next_token(token: int, column: int) -> int:
    """What follows `token` in `column`."""
    of_token, of_column = np.sum(FACTORS, 0)
    return int(of_token * token + of_column * column) % VOCAB_SIZE


def continued(ids: list[int], count: int) -> list[int]:
    """What follows the prompt `ids`."""
    ids = list(ids)
    for _ in range(count):
        ids.append(next_token(ids[-1], len(ids) - 1))
    return ids[-count:]


def write_ranked_bundle(folder: Path, replicas: int = 1) -> None:
    """Writes the bundle of a model that `next_token` describes into the new folder `folder`."""
    folder.mkdir()
    parts = [_write_part(folder, part) for part in range(len(FACTORS))]
    modules = tuple(
        replace(code, rank=part * replicas + replica)
        for part, code in enumerate(parts)
        for replica in range(replicas)
    )
    # The module reaches along the first axis.
    axes = (facts.Axis("tp", len(FACTORS)), facts.Axis("dp", replicas))
    (folder / facts.TOKENIZER).write_text(tiny_tokenizer().to_str())
    facts.Manifest(
        schema=facts.SCHEMA,
        name="ranked",
        model=facts.ModelFacts("ranked", 1, 1, VOCAB_SIZE, 4, "f32"),
        context=128,
        grid=axes if replicas > 1 else axes[:1],
        modules=modules,
        tokenizer=facts.TokenizerFacts(None, None, None, (), CHAT_TEMPLATE),
        versions={},
        files={path.name: facts.FileFacts.of(path) for path in folder.iterdir()},
        compile=facts.CompileFacts(0.0, (), 0, {}),
    ).write(folder)


def _write_part(folder: Path, rank: int) -> facts.ModuleFacts:
    module, parameters = f"module.rank{rank}.vmfb", f"params.rank{rank}.irpa"
    first = PIECE * rank
    text = _MODULE.format(vocab=VOCAB_SIZE, piece=PIECE, first=first)
    generic = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=generic)
    (folder / module).write_bytes(code)
    index = rt.ParameterIndex()
    index.add_buffer("factors", np.array(FACTORS[rank], np.float32).tobytes())
    index.create_archive_file(str(folder / parameters))
    target = facts.TargetFacts("cpu", host_arch(), "generic", ())
    return facts.ModuleFacts(
        target, rank, module, parameters, {"f32": 4}, "i64", 0, 1, {"greedy": 1}
    )
