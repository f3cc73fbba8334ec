"""The command line. Kept light: no command pays for what it does not use."""
