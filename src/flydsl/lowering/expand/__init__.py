"""What targets lack, in terms of what they have: math, powers, tests and conversions of floats."""
