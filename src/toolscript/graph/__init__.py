"""What is used together: a graph of tools, learned from calls, and what it says comes next."""
