"""Template tags of the review desk."""
