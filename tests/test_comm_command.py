"""`llmc comm`: schedules of a matmul among ranks compute it, and send what they should."""

import json

import pytest

from llmc.pipelines.sharding.search.device import Device, Link
from llmc.tools.llmc import main

ROWS, INPUTS, OUTPUTS, RANKS = 5, 48, 24, 3
LATENCY_S, BYTES_PER_S = 1e-3, 1e6

PROGRAM = f"""
shard.grid @grid(shape = {RANKS}) {{llmc.axes = ["tp"]}}
func.func @columns(%x: tensor<{ROWS}x{INPUTS}xf32>, %w: tensor<{OUTPUTS}x{INPUTS}xf32>)
    -> tensor<{ROWS}x{OUTPUTS}xf32> {{
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns annotate_for_users : tensor<{ROWS}x{INPUTS}xf32>
  %y = "llmc.linear"(%xs, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
      : (tensor<{ROWS}x{INPUTS}xf32>, tensor<{OUTPUTS}x{INPUTS}xf32>)
      -> tensor<{ROWS}x{OUTPUTS}xf32>
  %ys = shard.shard %y to %columns : tensor<{ROWS}x{OUTPUTS}xf32>
  return %ys : tensor<{ROWS}x{OUTPUTS}xf32>
}}
func.func @whole(%x: tensor<{ROWS}x{INPUTS}xf32>, %w: tensor<{INPUTS}x{OUTPUTS}xf32>)
    -> tensor<{ROWS}x{OUTPUTS}xf32> {{
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns annotate_for_users : tensor<{ROWS}x{INPUTS}xf32>
  %y = "llmc.linear"(%xs, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 1 : i64}}
      : (tensor<{ROWS}x{INPUTS}xf32>, tensor<{INPUTS}x{OUTPUTS}xf32>)
      -> tensor<{ROWS}x{OUTPUTS}xf32>
  return %y : tensor<{ROWS}x{OUTPUTS}xf32>
}}
"""


@pytest.fixture
def compare(tmp_path):
    """Runs the command on a program, with two rounds; its exit status."""

    def run(program: str, *words: str) -> int:
        (tmp_path / "program.mlir").write_text(program)
        device = tmp_path / "device.json"
        link = Link(RANKS, LATENCY_S, BYTES_PER_S)
        device.write_text(Device(10**9, 1e9, {"f32": 1e10}, (link,)).to_json())
        words = (str(tmp_path / "program.mlir"), "--device", str(device), "--rounds", "2", *words)
        return main(["comm", *words])

    return run


def test_every_schedule_computes_the_matmul_and_sends_what_it_should(compare, capfd):
    assert compare(PROGRAM, "--json") == 0
    rows = {(row["function"], row["variant"]): row for row in json.loads(capfd.readouterr().out)}
    x, y = 4 * ROWS * INPUTS * (RANKS - 1) // RANKS, 4 * ROWS * OUTPUTS * (RANKS - 1) // RANKS
    sent = {"gather": x, "ring": x, "scatter": y}
    # Messages that follow one another among three ranks, in a tree as around a ring.
    steps = 2
    assert len(rows) == 2 * len(sent)
    for (function, variant), row in rows.items():
        gathered = function == "whole"
        assert row["moved"] == sent[variant] + gathered * y
        seconds = (steps + steps * gathered) * LATENCY_S + row["moved"] / BYTES_PER_S
        assert row["link_s"] == pytest.approx(seconds)
        # Two sums of so many products, which are at most a few times the largest result together.
        assert row["error"] < 2 * INPUTS * 4 * 2**-24
        assert row["call_s"] > 0
    # Beside the rank's part of y: all of x, two pieces of it and a product, all of the sum.
    part_x, part_y = 4 * ROWS * INPUTS // RANKS, 4 * ROWS * OUTPUTS // RANKS
    assert rows["columns", "gather"]["peak"] == RANKS * part_x + part_y
    assert rows["columns", "ring"]["peak"] == 2 * part_x + 2 * part_y
    assert rows["columns", "scatter"]["peak"] == RANKS * part_y + part_y


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("zork", "it is no matmul among ranks"),
        ("module {}", "needs a 'shard.grid @grid' of one axis"),
        (PROGRAM.partition("func.func")[0], "no function with an 'llmc.linear'"),
        (PROGRAM.replace(f"<{ROWS}x", "<?x"), "@columns leaves sizes open"),
        (PROGRAM.replace("f32", "f64"), "@columns is not of f32"),
        (PROGRAM.replace("[[], [0]]", "[[0], []]"), "expected x to be split along K"),
        (PROGRAM.replace(str(OUTPUTS), "25"), "evenly among 3 ranks"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(program, says, compare, capfd):
    assert compare(program) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert says in line
