// RUN: llmc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(group-expert-rows{tile=4},cse)' | filecheck %s
// RUN: not llmc-opt %s --pass-pipeline='builtin.module(group-expert-rows{tile=0})' 2>&1 | filecheck %s --check-prefix=ZERO

// ZERO: error: option 'tile' of pass 'group-expert-rows' must be from 1 to 4096, not 0

// Both layers follow one choice of experts and share its groups.
// CHECK-LABEL: func.func @many_tokens
// CHECK-NEXT:    %[[G:.+]]:2 = "llmc.group_rows"(%arg1) : (tensor<?xi64>) -> (tensor<?xi32>, tensor<5xi32>)
// CHECK-NEXT:    %[[UP:.+]] = "llmc.grouped_expert_linear"(%arg0, %[[G]]#0, %[[G]]#1, %arg2)
// CHECK-SAME:      tile = 4 : i64, top_k = 2 : i64
// CHECK-SAME:      -> tensor<?x10xf32>
// CHECK-NEXT:    "llmc.grouped_expert_linear"(%[[UP]], %[[G]]#0, %[[G]]#1, %arg3)
// CHECK-SAME:      tile = 4 : i64, top_k = 1 : i64
// CHECK-NOT:     llmc.packed_expert_linear
func.func @many_tokens(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %up: tensor<4x2x6x8xf32>,
                       %down: tensor<4x1x10x8xf16>) -> tensor<?x6xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x6x8xf32>) -> tensor<?x10xf32>
  %z = "llmc.packed_expert_linear"(%y, %expert, %down) {top_k = 1 : i64}
     : (tensor<?x10xf32>, tensor<?xi64>, tensor<4x1x10x8xf16>) -> tensor<?x6xf32>
  return %z : tensor<?x6xf32>
}

// The experts of one token differ.
// CHECK-LABEL: func.func @one_token
// CHECK-NOT:     llmc.group_rows
// CHECK:         "llmc.packed_expert_linear"
func.func @one_token(%x: tensor<1x6xf32>, %expert: tensor<2xi64>, %up: tensor<4x2x6x8xf32>)
    -> tensor<2x10xf32> {
  %y = "llmc.packed_expert_linear"(%x, %expert, %up) {top_k = 2 : i64}
     : (tensor<1x6xf32>, tensor<2xi64>, tensor<4x2x6x8xf32>) -> tensor<2x10xf32>
  return %y : tensor<2x10xf32>
}

// -----

func.func @invalid(%x: tensor<?x6xf32>, %expert: tensor<?xi64>, %w: tensor<4x2x5x8xf32>) {
  // expected-error@+1 {{'llmc.packed_expert_linear' op}}
  %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 2 : i64}
     : (tensor<?x6xf32>, tensor<?xi64>, tensor<4x2x5x8xf32>) -> tensor<?x10xf32>
  return
}
