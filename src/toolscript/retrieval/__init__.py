"""From a sentence to the documents that answer it: signals, fusion, steps, trace."""
