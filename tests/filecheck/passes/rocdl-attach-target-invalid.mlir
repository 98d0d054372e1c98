// RUN: not %fly-opt --rocdl-attach-target='O=4' %s 2>&1 | FileCheck %s
// RUN: not %fly-opt --rocdl-attach-target='chipset=gfx942' %s 2>&1 | FileCheck %s --check-prefix=NAME

// CHECK: fly-opt: option 'O' is 0 to 3, got 4
// NAME: fly-opt: pass 'rocdl-attach-target' has no option 'chipset'
gpu.module @a {
}
