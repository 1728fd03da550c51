"""torch's examples of operators of users, of which there are none here."""

autograd_function_db: list = []
