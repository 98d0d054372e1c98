"""A complete stack outside of FlyDSL: `backend` compiles, `runtime` runs. FlyDSL finds both by entry point."""
