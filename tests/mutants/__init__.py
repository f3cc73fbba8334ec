"""Does a test notice when the program is broken on purpose?

    python -m tests.mutants [--only ID,ID] [--json FILE] [--unchecked]

``mutants.toml`` lists deliberate breaks: one text of one source file, what is put
in its place, and the requirement or finding that is broken by it. Each is made in
a copy of the repository, where the tests of that requirement are run; one of them
has to fail. A break that survives, or that ends its tests by using up time or
memory, is a test that is missing.

Run by hand: it takes some twenty minutes. ``tests/mutants/test_mutants.py`` sees
to it that every break still applies to the sources.
"""
