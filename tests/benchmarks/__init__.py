"""Figures of whole processes and of the notebook, measured from outside."""
