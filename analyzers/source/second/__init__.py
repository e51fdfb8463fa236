"""A second reading by a language model: what is asked, with which lines, and which of its answers count."""
