"""What a tool's definition is known and trusted as."""
