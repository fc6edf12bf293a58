"""The ranks: start, pin, agree, fail together."""
