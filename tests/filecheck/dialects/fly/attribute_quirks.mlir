// RUN: %fly-opt --allow-unregistered-dialect %s | FileCheck %s

// These print in a form that does not parse again, as FlyDSL's do.
// CHECK: a = #fly.int4, b = #fly.basis1E0, c = #fly.swizzleS<1,2,3>, d = #fly.coord_swizzleCS<2,0,[0],3,[1]>, e = #fly<composed_layoutS<3,4,3> o 0 o (8,8):(8,1)>
"test.a"() {a = #fly<int 4>, b = #fly<basis 1E0>, c = #fly<swizzle S<1,2,3>>, d = #fly<coord_swizzle CS<2,0,[0],3,[1]>>, e = #fly<composed_layout S<3,4,3> o 0 o (8,8):(8,1)>} : () -> ()
