"""Files that are replaced as a whole, and bytes by key in SQLite."""
