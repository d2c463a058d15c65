"""What must be the same at every door through which an answer comes."""
