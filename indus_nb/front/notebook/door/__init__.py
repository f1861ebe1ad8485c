"""What the front-end extension and the kernel say to each other: one door per notebook that a page shows."""
