// RUN: %fly-opt --nvvm-attach-target='chip=sm_90 features=+ptx83 O=3 fast=true' %s | FileCheck %s

// CHECK: gpu.module @a [#nvvm.target<O = 3, chip = "sm_90", features = "+ptx83", flags = {fast}>] {
gpu.module @a {
}
