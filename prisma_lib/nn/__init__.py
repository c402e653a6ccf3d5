"""Network blocks. None of them knows which equation it serves."""
