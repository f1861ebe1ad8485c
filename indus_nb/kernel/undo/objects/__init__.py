"""What remembering an object means, for each kind of object."""
