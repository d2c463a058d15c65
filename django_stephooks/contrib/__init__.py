"""Bridges to tools that a project may use; each is imported only when it is asked for."""
