"""Files as users have them, from other clients and from editors."""
