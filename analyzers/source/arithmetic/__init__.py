"""How large a model is and what a training step of it costs, by arithmetic on its architecture alone."""
