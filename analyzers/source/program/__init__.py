"""A bounded reader that walks a Python program as it would run, on abstract values, without running it."""
