"""A doctor: looks whether everything agrees, proves that nothing is lost, puts right what is derived.

Nothing here ever changes a message, and nothing undoes what somebody did on purpose: what a /new took out of a context
stays out, and what was archived stays archived.
"""
