"""The command line. Imports are lazy: no command pays for what it does not use."""
