module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    transform.annotate %root "llmc.seen" : !transform.any_op
    transform.yield
  }
}
