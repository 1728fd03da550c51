"""Small helpers that several packages share; start with `hooks`."""
