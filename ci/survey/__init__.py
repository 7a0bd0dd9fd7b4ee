"""The survey of transformers behind survey.json: what its config classes hold, what its networks read."""
