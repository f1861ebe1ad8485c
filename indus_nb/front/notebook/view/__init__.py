"""Events as blocks, blocks as MIME bundles, and where they are drawn: a cell's output, or a widget while they grow."""
