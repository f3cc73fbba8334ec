"""The application: answers every surface, and knows no wire."""
