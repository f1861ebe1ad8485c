"""Snapshots of objects, for each kind of object."""
