"""The whole of it as an operator runs it: real processes, a real Redis, real kills."""
