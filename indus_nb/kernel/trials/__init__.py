"""Code that is tried in a confined copy of the kernel before it runs there."""
