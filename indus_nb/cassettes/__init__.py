"""Recorded answers of models, and what plays them again."""
