"""What users keep in files: settings, skills, prompt templates, context files and stream rules."""
