"""What every dialect needs and none is: builder and emitter of ops, folding, dead code, locations, parser, registry."""
