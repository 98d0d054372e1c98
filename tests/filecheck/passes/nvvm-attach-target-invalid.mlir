// RUN: not %fly-opt --nvvm-attach-target='ftz=maybe' %s 2>&1 | FileCheck %s

// CHECK: fly-opt: option 'ftz' of pass 'nvvm-attach-target' is true or false, got 'maybe'
gpu.module @a {
}
