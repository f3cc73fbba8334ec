"""What is accepted of tools' definitions, and what is held."""
