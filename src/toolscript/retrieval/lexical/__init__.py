"""The lexical signal: matches words and names."""
