"""Events as blocks, blocks as MIME bundles, and where they are displayed."""
