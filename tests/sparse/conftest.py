"""Lets the tests of this folder import `sparse_reference`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
