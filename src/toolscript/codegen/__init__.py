"""Generates typed clients: modules of TypeScript or Python with a function for each tool."""
