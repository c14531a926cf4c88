"""The texts of PostgreSQL's statements."""
