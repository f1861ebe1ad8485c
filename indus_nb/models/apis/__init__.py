"""A provider for each API that models are reached by, and the rules that its requests keep."""
