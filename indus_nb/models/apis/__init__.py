"""Providers, one for each API that models are reached by, and the rules that their requests keep."""
