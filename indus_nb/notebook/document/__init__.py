"""The notebook's file, its cells and its pictures."""
