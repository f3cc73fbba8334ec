"""``python -m toolscript``."""

from toolscript.surfaces.cli.main import main

if __name__ == "__main__":
    main()
