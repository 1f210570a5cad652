"""The six nouns (space, support, task, diagnostic, experiment, claim) and what they share."""
