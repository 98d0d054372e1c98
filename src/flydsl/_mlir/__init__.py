"""MLIR's Python bindings as FlyDSL's users reach into them, over this package's own IR.

`from flydsl._mlir import ir` and `from flydsl._mlir.dialects import arith, llvm, scf, ...`, inside kernels mostly.
Values are the language's own scalars and vectors, types and attributes are xDSL's; op classes and builder functions are
made when they are asked for, from the definitions of the dialects. Nothing else of the package imports this.
"""
