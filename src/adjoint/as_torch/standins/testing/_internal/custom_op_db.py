"""torch's examples of operators of users, of which there are none here."""

custom_op_db: list = []
