"""The kernel's tools as models call them."""
