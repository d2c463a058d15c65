"""What happens inside a run. Read `turn.py` first."""
