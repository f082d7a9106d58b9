"""Bodies of kernels that are set aside come back to where IREE has put what they are given."""

from iree.compiler import ir

from llmc.pipelines.kernel_bodies import put_back, set_aside


def kernel(given: str, body: str) -> str:
    """An executable whose only function does `body` with what it is `given`."""
    return f"""
stream.executable private @copy {{
  stream.executable.export public @copy
  builtin.module {{
    func.func @copy({given}) {{
      {body}
      return
    }}
  }}
}}
"""


KERNEL = kernel(
    "%count: index, %from: !stream.binding, %to: !stream.binding",
    """
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %source = stream.binding.subspan %from[%c8] : !stream.binding -> memref<?xf32>{%count}
      scf.for %i = %c0 to %count step %c8 {
        %target = stream.binding.subspan %to[%c0] : !stream.binding -> memref<?xf32>{%count}
        %x = memref.load %source[%i] : memref<?xf32>
        memref.store %x, %target[%i] : memref<?xf32>
      }
    """,
)

# As IREE may leave it: one binding, of which the second part begins at an offset, and an extent
# that came as 32 bits.
GIVEN = "%both: !stream.binding, %offset: index, %bits: i32"
LEFT = kernel(
    GIVEN,
    """
      %c0 = arith.constant 0 : index
      %count = arith.index_castui %bits : i32 to index
      %0 = stream.binding.subspan %both[%c0] : !stream.binding -> memref<1xi8>
      %1 = stream.binding.subspan %both[%offset] : !stream.binding -> memref<1xi8>
      util.optimization_barrier {llmc.body = "copy"} %count, %0, %1
          : index, memref<1xi8>, memref<1xi8>
    """,
)
EXPECTED = kernel(
    GIVEN,
    """
      %c0 = arith.constant 0 : index
      %count = arith.index_castui %bits : i32 to index
      %c0_0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %from = arith.addi %c0, %c8 : index
      %source = stream.binding.subspan %both[%from] : !stream.binding -> memref<?xf32>{%count}
      scf.for %i = %c0_0 to %count step %c8 {
        %to = arith.addi %offset, %c0_0 : index
        %target = stream.binding.subspan %both[%to] : !stream.binding -> memref<?xf32>{%count}
        %x = memref.load %source[%i] : memref<?xf32>
        memref.store %x, %target[%i] : memref<?xf32>
      }
    """,
)


def test_a_body_reads_what_the_kernel_is_given_now():
    context = ir.Context()
    given, left, expected = (ir.Module.parse(text, context) for text in (KERNEL, LEFT, EXPECTED))
    put_back(left, set_aside(given))
    assert str(left) == str(expected)


def test_what_a_kernel_is_given_may_be_one_buffer_twice():
    context = ir.Context()
    given, left, expected = (
        ir.Module.parse(text, context)
        for text in (
            KERNEL,
            LEFT.replace("%count, %0, %1", "%count, %1, %1"),
            EXPECTED.replace("addi %c0, %c8", "addi %offset, %c8"),
        )
    )
    put_back(left, set_aside(given))
    assert str(left.operation) == str(expected.operation)


def test_what_is_left_gives_a_barrier_all_that_the_kernel_is_given():
    module = ir.Module.parse(KERNEL, ir.Context())
    bodies = set_aside(module)
    assert list(bodies) == ["copy"]
    assert "memref.load" not in str(module)
    put_back(module, bodies)
    assert module.operation.verify()
    assert str(module).count("memref.load") == 1
