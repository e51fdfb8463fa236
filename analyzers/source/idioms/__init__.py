"""What the calls of one framework or library say about a job: one module for each group of facts."""
