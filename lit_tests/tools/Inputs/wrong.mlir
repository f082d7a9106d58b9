func.func @f(%x: i32) {
  %0 = "arith.addi"(%x) : (i32) -> i32
  return
}
