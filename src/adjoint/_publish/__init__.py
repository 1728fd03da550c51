"""How what is written in Python reaches users: functions that are published, their arguments, errors and overrides.

Start reading at `register.composition`.
"""
