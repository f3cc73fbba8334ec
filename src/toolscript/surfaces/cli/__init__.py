"""The command line. Imports are lazy: no command pays for modules that it does not use."""
