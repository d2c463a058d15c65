"""What this costs, measured: `make bench`, or `python -m benchmarks --help`. No test asserts a time."""
