"""Optional parts: nothing here is imported unless a project uses it."""
