module attributes {transform.with_named_sequence} {
  transform.named_sequence @tile(%op: !transform.any_op {transform.consumed}) {
    %tile, %loop = transform.structured.tile_using_for %op tile_sizes [4]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @__transform_main(%payload: !transform.any_op) {
    %products = transform.structured.match ops{["linalg.matmul"]} in %payload
        : (!transform.any_op) -> !transform.any_op
    transform.include @tile failures(propagate) (%products) : (!transform.any_op) -> ()
    transform.yield
  }
}
