"""The dialects: data, text forms, inference and verifiers. Import the submodule you need; this file loads nothing."""
