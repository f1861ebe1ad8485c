"""Attacks that must not succeed: what a model, a server, a project or a file may try, one module for each area."""
