"""The semantic signal: compares the meaning of a query with that of documents."""
