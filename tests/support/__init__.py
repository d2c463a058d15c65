"""The readers' desk of the demo."""
