"""What the outside may do: start, answer, cancel and retry, and the periodic sweep."""
