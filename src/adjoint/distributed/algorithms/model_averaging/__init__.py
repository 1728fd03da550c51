"""Averages of models over ranks: see `averagers`."""
