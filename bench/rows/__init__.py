"""What scripts/bench can measure: one module a subject, one Row a line of its output."""
