// RUN: %fly-opt --rocdl-attach-target='chip=gfx1201 fast=true unsafe-math=true wave64=false' %s | FileCheck %s
// RUN: %fly-opt --rocdl-attach-target='module=^a$ O=3 abi=500 features=+sramecc correct-sqrt=false' %s | FileCheck %s --check-prefix=NAMED

// CHECK: gpu.module @a [#rocdl.target<chip = "gfx1201", flags = {fast, no_wave64, unsafe_math}>] {
// NAMED: gpu.module @a [#rocdl.target<O = 3, features = "+sramecc", abi = "500", flags = {unsafe_sqrt}>] {
gpu.module @a {
}
// A module may have several targets; the same one is not attached twice.
// CHECK: gpu.module @b [#nvvm.target, #rocdl.target<chip = "gfx1201", flags = {fast, no_wave64, unsafe_math}>] {
// NAMED: gpu.module @b [#nvvm.target, #rocdl.target<chip = "gfx1201", flags = {fast, no_wave64, unsafe_math}>] {
gpu.module @b [#nvvm.target, #rocdl.target<chip = "gfx1201", flags = {fast, no_wave64, unsafe_math}>] {
}
// One that says the chip alone is said in full: code is made once.
// CHECK: gpu.module @c [#nvvm.target, #rocdl.target<chip = "gfx1201", flags = {fast, no_wave64, unsafe_math}>] {
gpu.module @c [#nvvm.target, #rocdl.target<chip = "gfx1201">] {
}
