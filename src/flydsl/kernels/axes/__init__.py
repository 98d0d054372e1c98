"""Operations along any axis of an array: reductions, scans, sorts."""
