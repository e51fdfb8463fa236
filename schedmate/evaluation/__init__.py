"""Whether a configured language model is worth it: labelled jobs and logs, read without it and with it."""
