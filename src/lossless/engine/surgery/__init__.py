"""Change summaries: rewrite, repair, dissolve, merge, transplant, and undo each of these.

Every operation is planned first, with its cost, then applied in short transactions that record each row as it was. No
transaction is open during a model call, and a summary that changed meanwhile is planned again, never overwritten.
"""
