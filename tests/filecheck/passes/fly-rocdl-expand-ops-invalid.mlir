// RUN: %fly-opt --verify-diagnostics --split-input-file --fly-rocdl-expand-ops %s

!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!c = !fly.coord_tensor<(0,0), (256,128):(1E1,1E0)>
!s = !fly.memref<f16, shared, (64,32):(32,1)>
func.func @whole(%t: !t, %l: !l, %k: !k, %s: !s) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{a copy of 32768 elements by an atom that moves 2048; copy them one by one}}
  fly.copy(%a, %c, %s) : (!a, !c, !s) -> ()
  func.return
}
// -----
!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!s = !fly.memref<f16, shared, (64,32):(32,1)>
func.func @memory(%t: !t, %l: !l, %k: !k, %s: !s) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{a copy by the atom of a tiled tensor is between its coordinates and shared memory, got !fly.memref<f16, global, (256,128):(128,1)> -> !fly.memref<f16, shared, (64,32):(32,1)>}}
  fly.copy_atom_call(%a, %t, %s) : (!a, !t, !s) -> ()
  func.return
}
// -----
!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!s = !fly.memref<f16, shared, (64,32):(32,1)>
func.func @three(%t: !t, %l: !l, %k: !k, %s: !s, %v: !fly.coord_tensor<(0,0,0), (2,2,2):(1E0,1E1,1E2)>) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{the coordinates of this atom have 2 dimensions, got (0, 0, 0)}}
  fly.copy_atom_call(%a, %v, %s) : (!a, !fly.coord_tensor<(0,0,0), (2,2,2):(1E0,1E1,1E2)>, !s) -> ()
  func.return
}
// -----
!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
func.func @axes(%t: !t, %l: !l, %k: !k, %n: i32) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{boundary_check_axes is a static tuple of 2 numbers 0 or 1, got 'i32'}}
  %b = fly.atom.set_value(%a, "boundary_check_axes", %n) : (!a, i32) -> !a
  func.return
}
// -----
!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
func.func private @other(!a) -> ()
func.func @away(%t: !t, %l: !l, %k: !k) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{an atom of a tiled tensor is used by copies and by fly.atom.set_value, not by 'func.call'}}
  func.call @other(%a) : (!a) -> ()
  func.return
}
