// RUN: not llmc-opt %s --pass-pipeline='builtin.module(llmc-import)' 2>&1 | filecheck %s

// CHECK: error: the model needs aten.mul.Scalar: llmc cannot compile it
func.func @halve(%x: !torch.vtensor<[4],complex<f32>>) -> !torch.vtensor<[4],complex<f32>> {
  %half = torch.constant.float 5.000000e-01
  %0 = torch.aten.mul.Scalar %x, %half : !torch.vtensor<[4],complex<f32>>, !torch.float -> !torch.vtensor<[4],complex<f32>>
  return %0 : !torch.vtensor<[4],complex<f32>>
}
