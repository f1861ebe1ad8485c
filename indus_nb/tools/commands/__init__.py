"""Commands of a shell: as the tool that models call, and tried first where they can change nothing."""
