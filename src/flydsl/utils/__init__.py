"""Public helpers kept at FlyDSL's import paths."""
