"""Everything said to a language model: the gateway, the templates, and the checks on the answers.

The lowest room: it also holds the leaf modules any room may import, `errors`, `redaction` and `ownership`.
"""
